"""The cluster as a broker sees it: brokers, topics, leaders; names of topics; where replicas go."""
