# The command line in an image without a shell: about 55 MB, user 65532.
#
#   docker build -t once .
#   docker run --rm -p 127.0.0.1:8080:8080 -e ONCE_KEYS -v once-data:/data -v "$PWD/once.yaml:/etc/once.yaml:ro" once
#
# Other containers reach the address of a container, so once.yaml needs server.auth, for example
# {keys: "env:ONCE_KEYS"}; docs/install.md shows it, and how to do without. Publish the port to other
# machines only with server.tls. Relative paths of file destinations are below /data, the working
# directory. Clients that use another host name than localhost or an IP address need server.hosts.

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
# The check asks the server through the socket in its folder, so that it needs neither a key nor a
# certificate. Its empty configuration keeps it from opening the folder while there is no server.
# Another --data or command, or a volume that can't hold sockets, needs docker run --no-healthcheck.
HEALTHCHECK --start-period=5m CMD ["/usr/local/bin/once", "schedules", "--data", "/data/.once", "--config", "/dev/null"]
CMD ["serve", "--config", "/etc/once.yaml", "--data", "/data/.once", "--listen", "0.0.0.0:8080"]
