# The command line in an image without a shell: about 55 MB, user 65532.
#
#   docker build -t once .
#   docker run --rm -p 127.0.0.1:8080:8080 -v once-data:/data -v "$PWD/once.yaml:/etc/once.yaml:ro" once
#
# Relative paths of file destinations are below /data, the working directory. The server does not
# authenticate: publish its port to 127.0.0.1 only, or put an authenticating proxy in front of it.
# Clients that use another host name than localhost or an IP address need --allow-host.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w -X main.release=$VERSION" -o /once ./cmd/once \
    && mkdir /data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /once /usr/local/bin/once
COPY --from=build --chown=65532:65532 --chmod=0700 /data /data
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/once"]
CMD ["dev", "--config", "/etc/once.yaml", "--data", "/data/.once", "--listen", "0.0.0.0:8080"]
