package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// Kind is what a destination is.
type Kind string

// The kinds of destination.
const (
	KindFile        Kind = "file"
	KindWebhook     Kind = "webhook"
	KindSQS         Kind = "sqs"
	KindSNS         Kind = "sns"
	KindEventBridge Kind = "eventbridge"
	KindStream      Kind = "stream"
)

// Destination is where effects go: exactly one kind of place.
type Destination struct {
	// File is a path that gets one JSON object a line; "-" is standard output. Only where the system runs as one process.
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
	// Stream is another stream of this system.
	Stream string `json:"stream,omitempty" jsonschema:"minLength=1,description=Name of another stream of this system."`
}

// Kind tells what the destination is.
func (d Destination) Kind() Kind {
	kind, _ := d.place()
	return kind
}

// Target is what the destination names, for people: path, URL, queue, topic, bus or stream.
func (d Destination) Target() string {
	_, target := d.place()
	return target
}

func (d Destination) place() (Kind, string) {
	switch {
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

// Secret tells where a secret is: env:NAME, file:PATH, secretsmanager:NAME (AWS Secrets Manager) or ssm:NAME (the parameter store of AWS Systems Manager). The zero value is no
// secret. Printing and logging show neither the place nor the secret. What reads all four kinds is package secret.
type Secret string

// secretPlaces are the kinds of places.
func secretPlaces() []string { return []string{"env", "file", "secretsmanager", "ssm"} }

// ErrNoSecret says that the place of a secret is empty.
var ErrNoSecret = errors.New("no secret there")

// ErrRemoteSecret says that a secret is at a service, which a configuration does not ask.
var ErrRemoteSecret = errors.New("the secret is at a service of AWS")

// Resolve reads a secret that is in a variable or in a file now; white space around it is dropped. The error names the place, and is [ErrRemoteSecret] for the others.
func (s Secret) Resolve() (string, error) {
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
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("resolve secret %s: %w", s.Place(), ErrNoSecret)
	}
	return text, nil
}

// Local reports whether the secret is on this machine: in a variable or a file.
func (s Secret) Local() bool {
	return strings.HasPrefix(string(s), "env:") || strings.HasPrefix(string(s), "file:")
}

// Place gives env:NAME and the like, for messages to the operator.
func (s Secret) Place() string { return string(s) }

// String hides the secret's place.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the secret's place from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret's place from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret's place from JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
