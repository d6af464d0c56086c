# syntax=docker/dockerfile:1
# The programs alone, linked statically with musl, in an image with nothing else: no shell, no libraries, no root.
#
#   docker build -t cascade --build-arg CASCADE_COMMIT="$(git rev-parse HEAD)" .
#   docker run --rm -p 127.0.0.1:8080:8080 -e CASCADE_API_KEY=secret -v cascade-hub:/hub cascade
#   docker run --rm cascade run "What is 2 + 3?"
#
# A static program opens no shared libraries, so this image computes on the CPU only.

ARG RUST=1.95
FROM rust:${RUST}-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /cascade
COPY . .
# Named by `cascade doctor`; the image is built without the repository's history.
ARG CASCADE_COMMIT
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/cascade/target,id=cascade-${RUST}-alpine \
    cargo build --locked --release --package cascade-cli --package cascade-lab \
    && cp target/release/cascade target/release/cascade-lab /usr/local/bin/
# Fails unless the program is static and starts. The empty folders become the image's.
RUN ! readelf -l /usr/local/bin/cascade | grep -q INTERP \
    && cascade --version \
    && mkdir -p /image/hub /image/tmp /image/work && chmod 1777 /image/tmp && chown 65532:65532 /image/hub /image/work

FROM scratch
COPY --from=build /image/ /
COPY --from=build /usr/local/bin/cascade /usr/local/bin/cascade-lab /
COPY LICENSE-MIT LICENSE-APACHE /licenses/
# Models and datasets of the hub are kept here: mount a volume.
ENV HF_HUB_CACHE=/hub HOME=/work
VOLUME /hub
WORKDIR /work
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["/cascade", "serve", "--check-health"]
ENTRYPOINT ["/cascade"]
# Refuses to start without CASCADE_API_KEY (or --api-key-file, or --public after it).
CMD ["serve", "--host", "0.0.0.0"]
