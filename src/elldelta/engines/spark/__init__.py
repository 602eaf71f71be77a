"""Spark behind the engine contract: on this machine, on a cluster, or through Spark Connect."""
