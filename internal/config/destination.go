package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// Kind is the kind of a destination.
type Kind string

// The kinds of destination.
const (
	KindFile        Kind = "file"
	KindWebhook     Kind = "webhook"
	KindSQS         Kind = "sqs"
	KindSNS         Kind = "sns"
	KindEventBridge Kind = "eventbridge"
	KindStream      Kind = "stream"
	KindOnce        Kind = "once"
)

// Destination is a receiver of effects; exactly one of the fields for its kind is set.
type Destination struct {
	// File is a path of a file to which one JSON object per line is appended; "-" is standard
	// output. Only if the system runs as one process.
	File string `json:"file,omitempty" jsonschema:"minLength=1,description=Path of a file that gets one JSON object a line; - is standard output. Only where the system runs as one process."`
	// Webhook is an absolute http or https URL.
	Webhook string `json:"webhook,omitempty" jsonschema:"pattern=^https?://,description=URL that gets one signed POST a message."`
	// Secret signs the webhook's requests.
	Secret Secret `json:"secret,omitempty" jsonschema:"description=Where the secret that signs a webhook's requests is: env:NAME or file:PATH or secretsmanager:NAME or ssm:NAME. Never the secret itself."`
	// SQS is a queue's name, URL or ARN.
	SQS string `json:"sqs,omitempty" jsonschema:"minLength=1,description=Name or URL or ARN of a queue."`
	// SNS is a topic's name or ARN.
	SNS string `json:"sns,omitempty" jsonschema:"minLength=1,description=Name or ARN of a topic."`
	// EventBridge is a bus's name or ARN.
	EventBridge string `json:"eventbridge,omitempty" jsonschema:"minLength=1,description=Name or ARN of an event bus."`
	// Stream is another stream of this system or, with Once, a stream of the other system.
	Stream string `json:"stream,omitempty" jsonschema:"minLength=1,description=Name of another stream of this system. With once: name of a stream of the other system."`
	// Once is the URL of the HTTP API of another once system.
	Once string `json:"once,omitempty" jsonschema:"pattern=^https?://,description=URL of another once system; it gets each effect as a numbered message."`
	// Group is the group at the other system. Defaults to that of the effect.
	Group string `json:"group,omitempty" jsonschema:"minLength=1,maxLength=256,description=Group at the other system. Default: the group of the effect."`
	// Auth proves to the other system who sends: AuthIAM, or the location of a key.
	Auth Secret `json:"auth,omitempty" jsonschema:"description=How requests to the other system are authorized: iam signs them with the AWS credentials of this one. Otherwise where the key is: env:NAME or file:PATH or secretsmanager:NAME or ssm:NAME."`
	// Header is the header that carries the key. Defaults to Authorization, as a bearer token.
	Header string `json:"header,omitempty" jsonschema:"minLength=1,description=Header that carries the key as it is. Default: Authorization with Bearer before the key."`
	// Relay says whether effects of messages that came from other systems are sent too. Defaults to
	// true.
	Relay *bool `json:"relay,omitempty" jsonschema:"description=Whether effects of messages that came from other systems are sent too. Default: true. Set false if systems are linked both ways or all with each other."`
	// Retry is the policy for effects that the destination does not take.
	Retry Retry `json:"retry,omitzero" jsonschema:"description=How effects are retried that the destination does not take. Defaults: first 1s; max 10m; for 72h."`
}

// Kind returns the kind of the destination.
func (d Destination) Kind() Kind {
	kind, _ := d.place()
	return kind
}

// Target returns the path, URL, queue, topic, bus or stream, for people.
func (d Destination) Target() string {
	_, target := d.place()
	return target
}

func (d Destination) place() (Kind, string) {
	switch {
	case d.Once != "":
		return KindOnce, d.Once
	case d.File != "":
		return KindFile, d.File
	case d.Webhook != "":
		return KindWebhook, d.Webhook
	case d.SQS != "":
		return KindSQS, d.SQS
	case d.SNS != "":
		return KindSNS, d.SNS
	case d.EventBridge != "":
		return KindEventBridge, d.EventBridge
	default:
		return KindStream, d.Stream
	}
}

// AuthIAM is the authorization that signs requests with the credentials of AWS.
const AuthIAM Secret = "iam"

// Local returns the name of the stream of this system to which the destination sends, or "".
func (d Destination) Local() string {
	if d.Once != "" {
		return ""
	}
	return d.Stream
}

// Relays reports whether effects of messages that came from other systems are sent.
func (d Destination) Relays() bool { return d.Relay == nil || *d.Relay }

// Key returns the location of the secret that the destination needs, or "".
func (d Destination) Key() Secret {
	if d.Once == "" {
		return d.Secret
	}
	if d.Auth == AuthIAM {
		return ""
	}
	return d.Auth
}

// Secret names the location of a secret: env:NAME, file:PATH, secretsmanager:NAME (AWS Secrets
// Manager) or ssm:NAME (the parameter store of AWS Systems Manager). The zero value is no secret.
// Printing and logging show neither the location nor the secret. Package secret reads all four
// kinds.
type Secret string

// secretPlaces returns the kinds of locations.
func secretPlaces() []string { return []string{"env", "file", "secretsmanager", "ssm"} }

// ErrNoSecret says that the location of a secret is empty.
var ErrNoSecret = errors.New("is missing or empty")

// ErrRemoteSecret says that a secret is stored in a service. Resolve calls no service.
var ErrRemoteSecret = errors.New("is stored in a service of AWS")

// Resolve reads a secret from a variable or a file; white space around it is dropped. The error
// names the location; for a secret in a service it is [ErrRemoteSecret].
func (s Secret) Resolve() (string, error) {
	text, err := s.ResolveLines()
	return strings.TrimSpace(text), err
}

// ResolveLines is Resolve for a secret of several lines: white space stays, so that lines can be
// counted.
func (s Secret) ResolveLines() (string, error) {
	place, name, _ := strings.Cut(string(s), ":")
	var text string
	switch place {
	case "env":
		text = os.Getenv(name)
	case "file":
		data, err := os.ReadFile(name) //nolint:gosec // the operator names it
		if err != nil {
			return "", fmt.Errorf("resolve secret: %w", err)
		}
		text = string(data)
	case "secretsmanager", "ssm":
		return "", fmt.Errorf("resolve secret %s: %w", s.Place(), ErrRemoteSecret)
	}
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("resolve secret %s: %w", s.Place(), ErrNoSecret)
	}
	return text, nil
}

// Local reports whether the secret is on this machine: in a variable or a file.
func (s Secret) Local() bool {
	return strings.HasPrefix(string(s), "env:") || strings.HasPrefix(string(s), "file:")
}

// Place returns the location, such as env:NAME, for messages to the operator.
func (s Secret) Place() string { return string(s) }

// String hides the location of the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the location of the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the location of the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the location of the secret from JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
