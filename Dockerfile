FROM python:3.11-slim

RUN useradd --create-home kho && install -d -o kho -g kho -m 0700 /data
WORKDIR /app
COPY requirements ./requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/setup.txt -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

USER kho
ENV KHO_HOME=/data
VOLUME /data
EXPOSE 8001
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8001/health', timeout=3)"]
# Reached from outside of the container, so callers need a key. The first start makes one and prints it to the log, once;
# more of them: docker compose exec mcp-server kho keys create NAME
CMD ["kho", "serve", "--host", "0.0.0.0", "--port", "8001", "--first-key"]
