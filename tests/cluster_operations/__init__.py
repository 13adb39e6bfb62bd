"""Operations on clusters of our brokers under load: replaced brokers and disks and moved partitions."""
