package infra

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/constructs-go/constructs/v10"
)

// ReadSettings reads the settings from the context of the CDK: the options -c NAME=VALUE of its
// command line, and "context" in cdk.json. The error names every setting that is unknown or has an
// invalid value.
func ReadSettings(node constructs.Node) (Settings, error) {
	values, _ := node.GetAllContext(nil).(map[string]any)
	return parseSettings(values)
}

// own matches the names of settings; the CDK's own contain other characters.
var own = regexp.MustCompile("^[a-zA-Z]+$")

func parseSettings(values map[string]any) (Settings, error) {
	s := defaults()
	fields := s.fields()
	var errs []error
	for name, value := range values {
		if !own.MatchString(name) {
			continue
		}
		set, ok := fields[name]
		if !ok {
			errs = append(errs, fmt.Errorf("context %s: no such setting", name))
			continue
		}
		if err := set(fmt.Sprint(value)); err != nil {
			errs = append(errs, fmt.Errorf("context %s: %w", name, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if len(errs) == 0 {
		errs = append(errs, s.complete(values))
	}
	if err := errors.Join(errs...); err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return s, nil
}

// fields returns functions that parse and set each setting, by name.
func (s *Settings) fields() map[string]func(string) error {
	return map[string]func(string) error{
		"stack":               shaped(&s.Stack, stackName),
		"config":              text(&s.ConfigFile),
		"assets":              text(&s.Assets),
		"ingestFunction":      text(&s.IngestFunction),
		"processFunction":     text(&s.ProcessFunction),
		"publishFunction":     text(&s.PublishFunction),
		"architecture":        choice(&s.Architecture, ARM64, AMD64),
		"memory":              number(&s.Memory, 128, 10240),
		"timeout":             seconds(&s.Timeout, 5, 900),
		"maxConcurrency":      number(&s.MaxConcurrency, 2, 1000),
		"reservedConcurrency": number(&s.ReservedConcurrency, 0, 10000),
		"ingestConcurrency":   number(&s.IngestConcurrency, 1, 10000),
		"processConcurrency":  number(&s.ProcessConcurrency, 1, 10000),
		"publishConcurrency":  number(&s.PublishConcurrency, 1, 10000),
		"batchSize":           number(&s.BatchSize, 1, 10000),
		"batchWindow":         seconds(&s.BatchWindow, 0, 300),
		"minPollers":          number(&s.MinPollers, 2, 200),
		"maxPollers":          number(&s.MaxPollers, 2, 2000),
		"encryptionKey":       shaped(&s.EncryptionKey, keyARN),
		"vpc":                 shaped(&s.VPC, vpcID),
		"subnets":             listOf(&s.SubnetIDs, subnetID),
		"securityGroups":      listOf(&s.SecurityGroupIDs, groupID),
		"permissionsBoundary": shaped(&s.BoundaryARN, policyARN),
		"layers":              listOf(&s.LayerARNs, layerARN),
		"tracing":             flag(&s.Tracing),
		"corsOrigins":         listOf(&s.API.CORSOrigins, origin),
		"maxReceives":         number(&s.MaxReceives, 10, 1000),
		"sweepMinutes":        minutes(&s.Sweep, 1, 60),
		"sweepAllMinutes":     minutes(&s.SweepAll, 1, 1440),
		"metricsNamespace":    text(&s.MetricsNamespace),
		"environment":         pairs(&s.Environment),
		"groupsTable":         text(&s.GroupsTable),
		"tokensTable":         text(&s.TokensTable),
		"paused":              flag(&s.Paused),
		"kmsKeys":             listOf(&s.KMSKeys, keyARN),
		"api":                 choice(&s.API.Kind, HTTP, REST),
		"auth":                choice(&s.API.Auth, IAM, JWT, Key, None),
		"jwtIssuer":           text(&s.API.JWTIssuer),
		"jwtAudience":         list(&s.API.JWTAudience),
		"userPool":            shaped(&s.API.UserPool, poolARN),
		"apiKeys":             list(&s.API.Keys),
		"vpcEndpoints":        listOf(&s.API.VPCEndpoints, endpoint),
		"throttleRate":        number(&s.API.Rate, 1, 10000),
		"throttleBurst":       number(&s.API.Burst, 1, 5000),
		"apiLogsRole":         flag(&s.API.LogsRole),
		"deletionProtection":  flag(&s.DeletionProtection),
		"logRetentionDays":    number(&s.LogRetentionDays, 1, 3653),
		"alarmTopic":          shaped(&s.AlarmTopic, topicARN),
		"pageTopic":           shaped(&s.PageTopic, topicARN),
		"alarmMinutes":        minutes(&s.AlarmAge, 5, 1440),
		"alarmsOff":           list(&s.AlarmsOff),
		"accountConcurrency":  number(&s.AccountConcurrency, 10, 1_000_000),
		"tags":                pairs(&s.Tags),
		"emulator":            flag(&s.Emulator),
		"construct":           flag(&s.Construct),
	}
}

// A shape is the required form of a text. For some wrong values the CDK panics, and AWS refuses
// others in the middle of a deployment.
type shape struct {
	pattern *regexp.Regexp
	what    string
}

// The shapes.
//
//nolint:gochecknoglobals // compile-time tables
var (
	stackName = shape{regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`), "a stack's name: a letter, then letters, digits and hyphens, 128 at most"}
	topicARN  = shape{regexp.MustCompile(`^arn:[^:]+:sns:[^:]+:\d{12}:[^:]+$`), "the ARN of an SNS topic"}
	poolARN   = shape{regexp.MustCompile(`^arn:[^:]+:cognito-idp:[^:]+:\d{12}:userpool/.+$`), "the ARN of a Cognito user pool"}
	keyARN    = shape{regexp.MustCompile(`^arn:[^:]+:kms:[^:]+:\d{12}:key/.+$`), "the ARN of a KMS key"}
	vpcID     = shape{regexp.MustCompile(`^vpc-[0-9a-z]+$`), "the id of a VPC"}
	subnetID  = shape{regexp.MustCompile(`^subnet-[0-9a-z]+$`), "the id of a subnet"}
	groupID   = shape{regexp.MustCompile(`^sg-[0-9a-z]+$`), "the id of a security group"}
	policyARN = shape{regexp.MustCompile(`^arn:[^:]+:iam::(\d{12}|aws):policy/.+$`), "the ARN of a managed policy"}
	layerARN  = shape{regexp.MustCompile(`^arn:[^:]+:lambda:[^:]+:\d{12}:layer:[^:]+:\d+$`), "the ARN of a version of a layer"}
	origin    = shape{regexp.MustCompile(`^(\*|https?://[^/*]+)$`), "an origin, such as https://shop.example"}
	endpoint  = shape{regexp.MustCompile(`^vpce-[0-9a-z]+$`), "the id of a VPC endpoint"}
)

func (s shape) check(value string) error {
	if !s.pattern.MatchString(value) {
		return fmt.Errorf("%q is not %s", value, s.what)
	}
	return nil
}

func shaped(to *string, s shape) func(string) error {
	return func(value string) error {
		*to = value
		return s.check(value)
	}
}

// listOf parses comma-separated items of one shape.
func listOf(to *[]string, s shape) func(string) error {
	return func(value string) error {
		if err := list(to)(value); err != nil {
			return err
		}
		for _, item := range *to {
			if err := s.check(item); err != nil {
				return err
			}
		}
		return nil
	}
}

func text(to *string) func(string) error {
	return func(value string) error {
		if value == "" {
			return errors.New("is empty")
		}
		*to = value
		return nil
	}
}

func choice[T ~string](to *T, allowed ...T) func(string) error {
	return func(value string) error {
		if !slices.Contains(allowed, T(value)) {
			return fmt.Errorf("%q is not one of %v", value, allowed)
		}
		*to = T(value)
		return nil
	}
}

func flag(to *bool) func(string) error {
	return func(value string) error {
		switch value {
		case "true":
			*to = true
		case "false":
			*to = false
		default:
			return fmt.Errorf("%q is neither true nor false", value)
		}
		return nil
	}
}

func number(to *int, low, high int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a whole number from %d to %d", value, low, high)
		}
		*to = n
		return nil
	}
}

func seconds(to *time.Duration, low, high int) func(string) error {
	return units(to, time.Second, low, high)
}

func minutes(to *time.Duration, low, high int) func(string) error {
	return units(to, time.Minute, low, high)
}

func units(to *time.Duration, unit time.Duration, low, high int) func(string) error {
	return func(value string) error {
		var n int
		if err := number(&n, low, high)(value); err != nil {
			return err
		}
		*to = time.Duration(n) * unit
		return nil
	}
}

// list parses comma-separated items.
func list(to *[]string) func(string) error {
	return func(value string) error {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item == "" {
				return errors.New("has an empty item")
			}
			*to = append(*to, item)
		}
		return nil
	}
}

// pairs parses comma-separated NAME=VALUE pairs.
func pairs(to *map[string]string) func(string) error {
	return func(value string) error {
		var items []string
		if err := list(&items)(value); err != nil {
			return err
		}
		*to = map[string]string{}
		for _, item := range items {
			name, v, ok := strings.Cut(item, "=")
			if !ok || name == "" {
				return fmt.Errorf("%q is not NAME=VALUE", item)
			}
			(*to)[name] = v
		}
		return nil
	}
}
