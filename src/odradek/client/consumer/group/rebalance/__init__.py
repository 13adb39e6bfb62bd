"""One rebalance: joining the group and applying the new assignment."""
