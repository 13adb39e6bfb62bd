"""Dynamic configuration: a broker's layers, AlterConfigs and DescribeConfigs."""
