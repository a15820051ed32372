// Package secret reads secrets from where a configuration says they are, and keeps them for some minutes.
//
//	env:NAME             an environment variable
//	file:PATH            a file
//	secretsmanager:NAME  the current version of a secret in AWS Secrets Manager, by name or ARN; its text is the secret
//	ssm:NAME             a parameter of AWS Systems Manager, decrypted, by name or ARN
//
// White space around a secret is dropped.
//
// # Errors
//
// An empty place is [ErrNone]. Errors name the place and never hold any of the secret. While the services can't be asked, a secret that was read before is given out for an hour longer.
//
// # Limits
//
// A secret that is changed is seen after Options.Keep. Variables and files are read each time.
package secret

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"golang.org/x/sync/singleflight"
)

// ErrNone says that the place of a secret is empty.
var ErrNone = errors.New("no secret there")

// SecretsManager is what the package asks of Secrets Manager; *secretsmanager.Client is one.
type SecretsManager interface {
	GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, options ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
}

// Parameters is what the package asks of the parameter store; *ssm.Client is one.
type Parameters interface {
	GetParameter(ctx context.Context, in *ssm.GetParameterInput, options ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Options are what a reader can be told. Zero fields take the defaults in their comments.
type Options struct {
	// SecretsManager and Parameters default to none: their places are errors then.
	SecretsManager SecretsManager
	Parameters     Parameters
	// Keep is how long a secret of a service is given out before it is asked for again. Defaults to 5 minutes.
	Keep time.Duration
	// Timeout is how long the services may take, repeated tries included. Defaults to 5 seconds.
	Timeout time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
}

// grace is how much longer a secret is given out while it can't be asked for.
const grace = time.Hour

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

// New makes a reader. It reads nothing.
func New(options Options) *Reader {
	if options.Keep == 0 {
		options.Keep = 5 * time.Minute
	}
	if options.Timeout == 0 {
		options.Timeout = 5 * time.Second
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Reader{options: options, kept: map[string]kept{}}
}

// Source gives a function that reads the secret of a place, as destinations want it.
func (r *Reader) Source(place string) func() (string, error) {
	return func() (string, error) { return r.Read(context.Background(), place) }
}

// Read gives the secret of a place.
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
		return "", errors.New("a secret is at env:NAME, file:PATH, secretsmanager:NAME or ssm:NAME")
	}
}

// remember gives what is kept, or asks a service: once for all who want it at the moment, and so apart from the context of whoever came first.
func (r *Reader) remember(ctx context.Context, place, kind, name string) (string, error) {
	r.mu.Lock()
	old, ok := r.kept[place]
	r.mu.Unlock()
	age := r.options.Now().Sub(old.at)
	if ok && age < r.options.Keep {
		return old.value, nil
	}
	value, err := r.ask(ctx, place, kind, name)
	if err != nil && ok && age < r.options.Keep+grace {
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
		return "", errors.New("there is no Secrets Manager here")
	}
	out, err := r.options.SecretsManager.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(aws.ToString(out.SecretString)), nil
}

func (r *Reader) parameter(ctx context.Context, name string) (string, error) {
	if r.options.Parameters == nil {
		return "", errors.New("there is no parameter store here")
	}
	out, err := r.options.Parameters.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil || out.Parameter == nil {
		return "", err
	}
	return strings.TrimSpace(aws.ToString(out.Parameter.Value)), nil
}
