# The command alone, as a user without rights: docker build -t braise . builds it from the sources.
# Recipes and braise.yaml come from a volume at /work; runs are kept below it.
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /braise ./cmd/braise

FROM gcr.io/distroless/static-debian12:nonroot
LABEL org.opencontainers.image.source="https://github.com/braise-run/braise" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /braise /usr/local/bin/braise
WORKDIR /work
USER nonroot
ENTRYPOINT ["/usr/local/bin/braise"]
CMD ["help"]
