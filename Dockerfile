# One image for the web processes, the worker and beat; docker-compose.yml says which is which.
FROM python:3.11-slim-bookworm AS build

# mysqlclient is compiled; everything else is a wheel, and every file is checked against its hash.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends default-libmysqlclient-dev gcc libc6-dev pkg-config \
 && rm -rf /var/lib/apt/lists/*
COPY requirements/production.lock /tmp/production.lock
RUN python -m venv /opt/kbsite \
 && /opt/kbsite/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
      --only-binary :all: --no-binary mysqlclient --require-hashes -r /tmp/production.lock


FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends libmariadb3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --no-create-home --home-dir /srv/kbsite --shell /usr/sbin/nologin kbsite

COPY --from=build /opt/kbsite /opt/kbsite
WORKDIR /srv/kbsite
# By name, so that nothing that happens to lie in the folder gets in (.dockerignore says the same from the other side).
COPY manage.py ./
COPY agents/ agents/
COPY clients/ clients/
COPY deploy/ deploy/
COPY documents/ documents/
COPY kbsite/ kbsite/
COPY locale/ locale/
COPY observability/ observability/
COPY retrieval/ retrieval/
COPY static/ static/
COPY templates/ templates/

ENV PATH=/opt/kbsite/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOST=0.0.0.0 \
    PORT=8000
# A volume that is new takes its owner from the folder that it covers.
RUN python -m compileall -q -j 0 /srv/kbsite \
 && install --directory --owner=kbsite --group=kbsite data knowledge_base
USER 10001

EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=8)"]
CMD ["python", "-m", "gunicorn", "-c", "deploy/web.py"]
