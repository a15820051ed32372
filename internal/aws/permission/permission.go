// Package permission derives the permissions that functions need for the destinations and handlers
// of a configuration: the action of each call, on the resource that the configuration names.
package permission

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/effectively-once/once/internal/config"
)

// A Permission is one action on one resource.
type Permission struct {
	Action   string
	Resource Resource
}

// A Resource is either a whole ARN, or the parts of one in the partition of the system. Region and
// account default to those of the system.
type Resource struct{ ARN, Service, Name, Region, Account string }

// For returns the permissions for the configured destinations. The error names each
// destination that a deployed system can't use.
func For(c *config.Config, environment map[string]string) ([]Permission, error) {
	var out []Permission
	var errs []error
	for _, name := range c.DestinationNames() {
		p, err := Of(c.Destinations[name], environment)
		if err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w", name, err))
		}
		out = append(out, p...)
	}
	return out, errors.Join(errs...)
}

// Of returns the permissions for one destination.
func Of(d config.Destination, environment map[string]string) ([]Permission, error) {
	switch d.Kind() {
	case config.KindFile:
		return nil, fmt.Errorf("a file, %s, works only in the embedded system", d.Target())
	case config.KindWebhook:
		return secretPermissions(d.Secret.Place(), environment)
	case config.KindSQS:
		queue, err := queueARN(d.Target())
		return []Permission{{"sqs:SendMessage", queue}, {"sqs:GetQueueUrl", queue}}, err
	case config.KindSNS:
		return []Permission{{"sns:Publish", named(d.Target(), "sns", "")}}, nil
	case config.KindEventBridge:
		return []Permission{{"events:PutEvents", named(d.Target(), "events", "event-bus/")}}, nil
	case config.KindStream:
		return nil, nil
	case config.KindOnce:
		return linkPermissions(d, environment)
	}
	return nil, nil
}

// ForHandlers returns the permissions for the configured handlers: to invoke a function, without or
// with its qualifier, as the configuration names it, and to read the secret that signs the requests
// to a URL. The error names each handler that a deployed system can't use.
func ForHandlers(c *config.Config, environment map[string]string) ([]Permission, error) {
	var out []Permission
	errs := []error{c.CheckHandlerKinds("a deployed system", config.HandlerURL, config.HandlerLambda, config.HandlerCode)}
	for _, name := range c.HandlerNames() {
		h := c.Handlers[name]
		switch h.Kind() {
		case config.HandlerLambda:
			out = append(out, Permission{"lambda:InvokeFunction", named(h.Lambda, "lambda", "function:")})
		case config.HandlerCode:
		case config.HandlerExec: // refused above
		case config.HandlerURL:
			p, err := secretPermissions(h.Secret.Place(), environment)
			if err != nil {
				errs = append(errs, fmt.Errorf("handlers.%s.secret: %w", name, err))
			}
			out = append(out, p...)
		}
	}
	return out, errors.Join(errs...)
}

// named returns an ARN unchanged; a name belongs to this account and region.
func named(target, service, prefix string) Resource {
	if strings.HasPrefix(target, "arn:") {
		return Resource{ARN: target}
	}
	return Resource{Service: service, Name: prefix + target}
}

// queueARN parses a name, a URL or an ARN. A URL is https://sqs.REGION.amazonaws.com/ACCOUNT/NAME,
// in China with .cn. It does not contain the partition; it must be this one, because no permission
// extends to another.
func queueARN(target string) (Resource, error) {
	if !strings.Contains(target, "://") {
		return named(target, "sqs", ""), nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return Resource{}, fmt.Errorf("read queue URL: %w", err)
	}
	host, path := strings.Split(u.Hostname(), "."), strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(host) < 3 || host[0] != "sqs" || len(path) != 2 {
		return Resource{}, fmt.Errorf("queue URL %s is not https://sqs.REGION.amazonaws.com/ACCOUNT/NAME; use the ARN of the queue", target)
	}
	return Resource{Service: "sqs", Name: path[1], Region: host[1], Account: path[0]}, nil
}

// linkPermissions returns the permissions to send to another system: to call its API, or to read
// the key for it. The account of the API is not in its URL.
func linkPermissions(d config.Destination, environment map[string]string) ([]Permission, error) {
	if d.Auth != config.AuthIAM {
		return secretPermissions(d.Key().Place(), environment)
	}
	u, err := url.Parse(d.Target())
	if err != nil {
		return nil, fmt.Errorf("read URL of a system: %w", err)
	}
	route := "/*/POST/v1/streams/" + d.Stream + "/batch"
	host := strings.Split(u.Hostname(), ".")
	if len(host) < 5 || host[1] != "execute-api" { // a domain of its own
		return []Permission{{"execute-api:Invoke", Resource{Service: "execute-api", Name: "*" + route, Region: "*", Account: "*"}}}, nil
	}
	return []Permission{{"execute-api:Invoke", Resource{Service: "execute-api", Name: host[0] + route, Region: host[2], Account: "*"}}}, nil
}

// secretPermissions returns the permissions to read the secret of a destination. AWS appends a dash
// and six characters to the name of a secret in its ARN.
func secretPermissions(place string, environment map[string]string) ([]Permission, error) {
	kind, name, _ := strings.Cut(place, ":")
	switch kind {
	case "":
		return nil, nil
	case "secretsmanager":
		secret := named(name, "secretsmanager", "secret:")
		if secret.ARN == "" {
			secret.Name += "-??????"
		}
		return []Permission{{"secretsmanager:GetSecretValue", secret}}, nil
	case "ssm":
		return []Permission{{"ssm:GetParameter", named(strings.TrimPrefix(name, "/"), "ssm", "parameter/")}}, nil
	case "env":
		if _, ok := environment[name]; ok {
			return nil, nil
		}
		return nil, fmt.Errorf("the functions have no variable %s; keep the secret in Secrets Manager, or set context environment=%s=VALUE", name, name)
	default:
		return nil, fmt.Errorf("the functions can't read a secret at %s", place)
	}
}
