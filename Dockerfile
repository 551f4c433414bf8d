# The image of docker-compose.yml: the compiled wheel of this repository and what it needs, nothing else.
FROM python:3.13-slim AS build
WORKDIR /source
# What compiles the broker (docs/compiled.md); it stays out of the image.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE ./
COPY protocol ./protocol
COPY broker ./broker
COPY pipeline ./pipeline
COPY purgatorio ./purgatorio
COPY pyspark_purgatorio ./pyspark_purgatorio
COPY simulation ./simulation
COPY testing ./testing
COPY pytest_purgatorio.py ./
COPY scripts/compiling.py scripts/image-build ./scripts/
RUN ./scripts/image-build wheels /wheels

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    --mount=type=bind,from=build,source=/source/scripts/image-build,target=/image-build \
    sh /image-build install /wheels \
    && useradd --system --no-create-home purgatorio
USER purgatorio
ENV PYTHONUNBUFFERED=1
EXPOSE 9092-9094 9644
CMD ["purgatorio", "cluster", "--host", "0.0.0.0"]
