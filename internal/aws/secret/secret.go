// Package secret reads secrets from the locations in a configuration, and caches those of services
// for some minutes.
//
//	env:NAME             an environment variable
//	file:PATH            a file
//	secretsmanager:NAME  the current version of a secret in AWS Secrets Manager, by name or ARN;
//	                     its text is the secret
//	ssm:NAME             a parameter of AWS Systems Manager, decrypted, by name or ARN
//
// White space around a secret is dropped.
//
// # Errors
//
// If a location is empty, the error is [ErrNone]. Errors name the location and never contain the
// secret. If a service fails, a secret that was read before is used for an hour longer.
//
// # Limits
//
// If a secret changes, the new value is used after five minutes. Variables and files are read each
// time.
package secret

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// ErrNone says that the location of a secret is empty.
var ErrNone = errors.New("is missing or empty")

// A Service calls operations of a service by its JSON protocol; *call.Client implements it.
type Service interface {
	JSON(ctx context.Context, operation string, in, out any) error
}

// Options configure a reader. Zero fields take the defaults in their comments.
type Options struct {
	// SecretsManager and Parameters, the parameter store of Systems Manager, default to none: then
	// their locations are errors.
	SecretsManager, Parameters Service
	// Timeout is the time limit for a service, including retries. Defaults to 5 seconds.
	Timeout time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
}

const (
	// keep is how long a secret of a service is used before the service is asked again.
	keep = 5 * time.Minute
	// grace is how much longer it is used while the service does not answer.
	grace = time.Hour
)

// A Reader reads secrets. It may be used concurrently.
type Reader struct {
	options Options
	flight  singleflight.Group

	mu   sync.Mutex
	kept map[string]kept
}

// kept is a secret and when it was read.
type kept struct {
	value string
	at    time.Time
}

// New returns a reader. It reads nothing.
func New(options Options) *Reader {
	options.Timeout = cmp.Or(options.Timeout, 5*time.Second)
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Reader{options: options, kept: map[string]kept{}}
}

// Source returns a function that reads the secret at a location, for destinations.
func (r *Reader) Source(place string) func() (string, error) {
	return func() (string, error) { return r.Read(context.Background(), place) }
}

// Read returns the secret at a location.
func (r *Reader) Read(ctx context.Context, place string) (string, error) {
	value, err := r.read(ctx, place)
	if err == nil && value == "" {
		err = ErrNone
	}
	if err != nil {
		return "", fmt.Errorf("read secret %s: %w", place, err)
	}
	return value, nil
}

func (r *Reader) read(ctx context.Context, place string) (string, error) {
	kind, name, _ := strings.Cut(place, ":")
	switch kind {
	case "env":
		return strings.TrimSpace(os.Getenv(name)), nil
	case "file":
		data, err := os.ReadFile(name) //nolint:gosec // the operator names it
		return strings.TrimSpace(string(data)), err
	case "secretsmanager", "ssm":
		return r.remember(ctx, place, kind, name)
	default:
		return "", errors.New("must be env:NAME, file:PATH, secretsmanager:NAME or ssm:NAME")
	}
}

// remember returns the cached secret, or calls the service. Concurrent callers share one call,
// whose context is therefore independent of theirs.
func (r *Reader) remember(ctx context.Context, place, kind, name string) (string, error) {
	r.mu.Lock()
	old, ok := r.kept[place]
	r.mu.Unlock()
	age := r.options.Now().Sub(old.at)
	if ok && age < keep {
		return old.value, nil
	}
	value, err := r.ask(ctx, place, kind, name)
	if err != nil && ok && age < keep+grace {
		return old.value, nil
	}
	return value, err
}

func (r *Reader) ask(ctx context.Context, place, kind, name string) (string, error) {
	answer := r.flight.DoChan(place, func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.options.Timeout)
		defer cancel()
		value, err := r.fetch(asking, kind, name)
		if err == nil && value == "" {
			err = ErrNone
		}
		if err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.kept[place] = kept{value, r.options.Now()}
		}
		return value, err
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case got := <-answer:
		value, _ := got.Val.(string)
		return value, got.Err
	}
}

func (r *Reader) fetch(ctx context.Context, kind, name string) (string, error) {
	if kind == "ssm" {
		return r.parameter(ctx, name)
	}
	if r.options.SecretsManager == nil {
		return "", errors.New("no client of Secrets Manager is configured")
	}
	var out struct{ SecretString string }
	err := r.options.SecretsManager.JSON(ctx, "GetSecretValue", map[string]any{"SecretId": name}, &out)
	return strings.TrimSpace(out.SecretString), err
}

func (r *Reader) parameter(ctx context.Context, name string) (string, error) {
	if r.options.Parameters == nil {
		return "", errors.New("no client of the parameter store is configured")
	}
	var out struct{ Parameter struct{ Value string } }
	err := r.options.Parameters.JSON(ctx, "GetParameter", map[string]any{"Name": name, "WithDecryption": true}, &out)
	return strings.TrimSpace(out.Parameter.Value), err
}
