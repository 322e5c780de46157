# ORE with the embedded engine and one model, without a server and without root.
#   docker build -t ore .
#   docker run --rm --network none ore "Name the capital of France."
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
# hadolint ignore=DL3013
RUN python -m venv /opt/ore && /opt/ore/bin/pip install --no-cache-dir ".[embedded]"

# A name of Ollama's library, of hf.co, or the small one that is for trying.
ARG MODEL=smollm2:135m
ENV ORE_MODEL_DIR=/opt/models
# What is pulled is for whoever pulled it alone; here it is for any user of the image.
RUN mkdir -p /opt/models && /opt/ore/bin/ore --pull "$MODEL" && chmod -R a+rX /opt/models

FROM python:3.12-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 ore
COPY --from=build /opt/ore /opt/ore
COPY --from=build /opt/models /opt/models
ARG MODEL=smollm2:135m
ENV PATH=/opt/ore/bin:$PATH \
    ORE_BACKEND=embedded \
    ORE_MODEL=$MODEL \
    ORE_MODEL_DIR=/opt/models
USER 1000
WORKDIR /home/ore
ENTRYPOINT ["ore"]
CMD ["--help"]
