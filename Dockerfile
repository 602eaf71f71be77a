# The agency's service, and every command, in an image: docker build -t elldelta .
# Two stages: what builds the package is not in what runs it. deploy/compose.yaml runs it beside PostgreSQL and nginx.

FROM python:3.13-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_BUILD_CONSTRAINT=/build/constraints.txt
RUN python -m venv /opt/elldelta
RUN /opt/elldelta/bin/python -m pip install --constraint constraints.txt '.[server,oidc,postgres,remote]'
RUN /opt/elldelta/bin/python -m compileall -q /opt/elldelta/lib
RUN /opt/elldelta/bin/python -m pip uninstall --quiet --yes pip

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="elldelta" org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 elldelta \
 && useradd --system --uid 10001 --gid elldelta --home-dir /var/lib/elldelta --shell /usr/sbin/nologin elldelta \
 && install --directory --owner elldelta --group elldelta --mode 0700 /var/lib/elldelta \
 && install --directory --owner elldelta --group elldelta --mode 0755 /data
COPY --from=build /opt/elldelta /opt/elldelta
# Nothing is written outside the two volumes and /tmp: start it with --read-only --tmpfs /tmp. Compiled code and fonts
# are cached in /tmp, too.
ENV PATH=/opt/elldelta/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib
# /var/lib/elldelta: the agency's private key and, without PostgreSQL, its database. /data: tables, plans and releases.
VOLUME ["/var/lib/elldelta", "/data"]
WORKDIR /data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=8)"]
ENTRYPOINT ["elldelta"]
CMD ["serve", "--data", "/var/lib/elldelta"]
