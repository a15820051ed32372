module github.com/effectively-once/once/e2e

go 1.26.0

replace github.com/effectively-once/once => ../

require github.com/effectively-once/once v0.0.0

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
)

require github.com/google/uuid v1.6.0
