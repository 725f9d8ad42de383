# Builds and runs the program in a container. This file has not been built by its authors: there was no
# container engine at hand.
#
#   docker build -t crosshash .
#   docker run --rm -it -p 127.0.0.1:7878:7878 -v "$PWD/photos:/data/photos:ro" -v crosshash:/work \
#     -e CROSSHASH_TOKEN=$(openssl rand -hex 32) crosshash \
#     start /data/photos --yes --out /work/photos --addr 0.0.0.0:7878

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc make nasm libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p crosshash-cli

FROM debian:bookworm-slim
# pip and curl download weights (`crosshash backbones fetch`); curl also checks the health.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl python3-pip \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 crosshash \
    && install -d -o crosshash -g crosshash /work
COPY --from=build /src/target/release/crosshash /usr/local/bin/crosshash
USER crosshash
WORKDIR /work
ENV CROSSHASH_CACHE=/work/cache
EXPOSE 7878
HEALTHCHECK --interval=30s --timeout=5s --start-period=10m \
    CMD curl --fail --silent --output /dev/null http://127.0.0.1:7878/healthz || exit 1
ENTRYPOINT ["crosshash"]
CMD ["--help"]
