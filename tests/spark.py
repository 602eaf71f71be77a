"""What tests on Spark share: whether it can run here."""

import os
import shutil

import pytest

needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ,
    reason="needs Java 17: apt install openjdk-17-jre-headless",
)
