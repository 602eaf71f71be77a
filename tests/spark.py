"""What tests on Spark share: whether it can run here, and a JVM that compiles little: it never lives long."""

import os
import shutil

import pytest

for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")

needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ,
    reason="needs Java 17: apt install openjdk-17-jre-headless",
)
