module github.com/effectively-once/once/watermill

go 1.26.0

replace github.com/effectively-once/once => ../

require (
	github.com/ThreeDotsLabs/watermill v1.5.1
	github.com/effectively-once/once v0.0.0
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)
