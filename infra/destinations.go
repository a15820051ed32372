package infra

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/config"
)

// A permission is one action on one resource.
type permission struct {
	action string
	arn    arn
}

// An arn is the resource of a destination: either a whole ARN, or its parts in this partition.
// Region and account default to those of the stack.
type arn struct{ whole, service, resource, region, account string }

func (a arn) in(scope constructs.Construct) *string {
	if a.whole != "" {
		return jsii.String(a.whole)
	}
	parts := &awscdk.ArnComponents{Service: jsii.String(a.service), Resource: jsii.String(a.resource), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME}
	if a.account != "" {
		parts.Region, parts.Account = jsii.String(a.region), jsii.String(a.account)
	}
	return awscdk.Stack_Of(scope).FormatArn(parts)
}

// grant grants exactly these permissions.
func grant(scope constructs.Construct, permissions []permission, grantee awsiam.IGrantable) {
	for _, p := range permissions {
		allow(grantee, p.arn.in(scope), p.action)
	}
}

// permissions returns the permissions for the configured destinations. The error names each
// destination that a deployed system can't use.
func permissions(c *config.Config, environment map[string]string) ([]permission, error) {
	var out []permission
	var errs []error
	for _, name := range c.DestinationNames() {
		p, err := permissionsOf(c.Destinations[name], environment)
		if err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w", name, err))
		}
		out = append(out, p...)
	}
	return out, errors.Join(errs...)
}

func permissionsOf(d config.Destination, environment map[string]string) ([]permission, error) {
	switch d.Kind() {
	case config.KindFile:
		return nil, fmt.Errorf("a file, %s, works only in the embedded system", d.Target())
	case config.KindWebhook:
		return secretPermissions(d.Secret.Place(), environment)
	case config.KindSQS:
		queue, err := queueARN(d.Target())
		return []permission{{"sqs:SendMessage", queue}, {"sqs:GetQueueUrl", queue}}, err
	case config.KindSNS:
		return []permission{{"sns:Publish", named(d.Target(), "sns", "")}}, nil
	case config.KindEventBridge:
		return []permission{{"events:PutEvents", named(d.Target(), "events", "event-bus/")}}, nil
	case config.KindStream:
		return nil, nil
	case config.KindOnce:
		return linkPermissions(d, environment)
	}
	return nil, nil
}

// named returns an ARN unchanged; a name belongs to this account and region.
func named(target, service, prefix string) arn {
	if strings.HasPrefix(target, "arn:") {
		return arn{whole: target}
	}
	return arn{service: service, resource: prefix + target}
}

// queueARN parses a name, a URL or an ARN. A URL is https://sqs.REGION.amazonaws.com/ACCOUNT/NAME,
// in China with .cn. It does not contain the partition; it must be this one, because no permission
// extends to another.
func queueARN(target string) (arn, error) {
	if !strings.Contains(target, "://") {
		return named(target, "sqs", ""), nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return arn{}, fmt.Errorf("read queue URL: %w", err)
	}
	host, path := strings.Split(u.Hostname(), "."), strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(host) < 3 || host[0] != "sqs" || len(path) != 2 {
		return arn{}, fmt.Errorf("queue URL %s is not https://sqs.REGION.amazonaws.com/ACCOUNT/NAME; use the ARN of the queue", target)
	}
	return arn{service: "sqs", resource: path[1], region: host[1], account: path[0]}, nil
}

// linkPermissions returns the permissions to send to another system: to call its API, or to read
// the key for it. The account of the API is not in its URL.
func linkPermissions(d config.Destination, environment map[string]string) ([]permission, error) {
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
		return []permission{{"execute-api:Invoke", arn{service: "execute-api", resource: "*" + route, region: "*", account: "*"}}}, nil
	}
	return []permission{{"execute-api:Invoke", arn{service: "execute-api", resource: host[0] + route, region: host[2], account: "*"}}}, nil
}

// secretPermissions returns the permissions to read the secret of a destination. AWS appends a dash
// and six characters to the name of a secret in its ARN.
func secretPermissions(place string, environment map[string]string) ([]permission, error) {
	kind, name, _ := strings.Cut(place, ":")
	switch kind {
	case "":
		return nil, nil
	case "secretsmanager":
		secret := named(name, "secretsmanager", "secret:")
		if secret.whole == "" {
			secret.resource += "-??????"
		}
		return []permission{{"secretsmanager:GetSecretValue", secret}}, nil
	case "ssm":
		return []permission{{"ssm:GetParameter", named(strings.TrimPrefix(name, "/"), "ssm", "parameter/")}}, nil
	case "env":
		if _, ok := environment[name]; ok {
			return nil, nil
		}
		return nil, fmt.Errorf("the functions have no variable %s; keep the secret in Secrets Manager, or set context environment=%s=VALUE", name, name)
	default:
		return nil, fmt.Errorf("the functions can't read a secret at %s", place)
	}
}
