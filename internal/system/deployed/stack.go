package deployed

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/aws/call"
	onceconfig "github.com/effectively-once/once/internal/config"
)

// Options name a stack and the credentials to use. Zero fields take the defaults in their comments.
type Options struct {
	// Name is the stack's name or ARN. If the stack has several pipelines, it is followed by a
	// slash and the id of one: Shop/Orders. Required.
	Name string
	// Profile of the shared configuration. Defaults to the environment's.
	Profile string
	// Region defaults to that of the environment or the profile.
	Region string
}

// A Stack is a deployed system. It may be used concurrently.
type Stack struct {
	Name    string // without the pipeline
	Region  string
	Outputs Outputs

	others         []string // the groups tables of the stack's other pipelines
	config         aws.Config
	cloudformation *call.Client
	dynamodb       *dynamodb.Client
	sqs            *sqs.Client
	lambda         *call.Client
	events         *call.Client
	logs           *call.Client
	sts            *sts.Client
}

// A SetupError reports a missing precondition before anything was done, and how to correct it.
type SetupError struct {
	Problem string
	Advice  string
	Err     error // the reason, if there is one
}

// Error returns problem, advice and reason.
func (e *SetupError) Error() string {
	text := e.Problem + ": " + e.Advice
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

// Unwrap returns Err.
func (e *SetupError) Unwrap() error { return e.Err }

// A DeniedError reports that AWS refused a call, and how to correct it: trying again does not help.
type DeniedError struct {
	Advice string
	Err    error
}

// Error returns the reason and the advice.
func (e *DeniedError) Error() string { return e.Err.Error() + ": " + e.Advice }

// Unwrap returns Err.
func (e *DeniedError) Unwrap() error { return e.Err }

// Open finds a stack by one call, DescribeStacks. If the stack or an output is missing, it returns
// a [*SetupError].
func Open(ctx context.Context, o Options) (*Stack, error) {
	cfg, err := settings(ctx, o)
	if err != nil {
		return nil, err
	}
	name, pipeline := split(o.Name)
	s := &Stack{
		Name: name, Region: cfg.Region, config: cfg,
		cloudformation: call.New(cfg, call.CloudFormation()),
		dynamodb:       DynamoDB(cfg),
		sqs:            sqs.NewFromConfig(cfg),
		lambda:         call.New(cfg, call.Lambda()),
		events:         call.New(cfg, call.EventBridge()),
		logs:           call.New(cfg, call.Logs()),
		sts:            sts.NewFromConfig(cfg),
	}
	return s, s.find(ctx, pipeline)
}

// split separates a stack's name or ARN from the id of a pipeline after it. An ARN has two slashes
// of its own: before the name, and before the id of the stack.
func split(name string) (stack, pipeline string) {
	slashes := 0
	if strings.HasPrefix(name, "arn:") {
		slashes = 2
	}
	parts := strings.SplitN(name, "/", slashes+2)
	if len(parts) < slashes+2 {
		return name, ""
	}
	return strings.Join(parts[:slashes+1], "/"), parts[slashes+1]
}

// DynamoDB returns a client. An emulator sends no checksum with an error, and each failed condition
// would be logged.
func DynamoDB(cfg aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.DisableValidateResponseChecksum = aws.ToString(o.BaseEndpoint) != ""
	})
}

// settings reads the environment and the shared files as every AWS tool does.
func settings(ctx context.Context, o Options) (aws.Config, error) {
	// The SDK logs failed attempts to standard error: the error at the end reports them.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if o.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(o.Profile))
	}
	if o.Region != "" {
		options = append(options, config.WithRegion(o.Region))
	}
	cfg, err := awsconfig.Load(ctx, options...)
	var missing config.SharedConfigProfileNotExistError
	switch {
	case errors.As(err, &missing):
		return cfg, &SetupError{fmt.Sprintf("there is no AWS profile %q", missing.Profile), "aws configure list-profiles lists those that are there", nil}
	case err != nil:
		return cfg, fmt.Errorf("read AWS settings: %w", err)
	case cfg.Region == "":
		return cfg, &SetupError{"no AWS region is known", "name it with --region or AWS_REGION, or choose a --profile that has one", nil}
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, &SetupError{"there are no AWS credentials", "sign in, with aws sso login or aws configure, or choose a --profile", err}
	}
	return cfg, nil
}

func (s *Stack) find(ctx context.Context, pipeline string) error {
	var out struct {
		Stacks []struct {
			StackStatus string
			Outputs     []stackOutput `xml:"Outputs>member"`
		} `xml:"DescribeStacksResult>Stacks>member"`
	}
	err := s.cloudformation.Form(ctx, "DescribeStacks", url.Values{"StackName": {s.Name}}, &out)
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode() == "ValidationError" && strings.Contains(refused.ErrorMessage(), "does not exist"), err == nil && len(out.Stacks) == 0:
		return &SetupError{fmt.Sprintf("there is no stack %s in %s", s.Name, s.Region), "is the name right? Choose another account with --profile, another region with --region", nil}
	case err != nil:
		return fmt.Errorf("find stack %s: %w", s.Name, explain(err))
	}
	return s.choose(out.Stacks[0].StackStatus, candidates(out.Stacks[0].Outputs), pipeline)
}

// choose takes the outputs of the pipeline with an id. Without an id it takes the system whose
// outputs have no prefix, or the only pipeline.
func (s *Stack) choose(status string, all []candidate, id string) error {
	var complete []string
	for _, c := range all {
		if len(c.missing) == 0 {
			complete = append(complete, c.prefix)
		}
	}
	i := slices.IndexFunc(all, func(c candidate) bool { return c.prefix == onceconfig.OutputName(id) })
	switch {
	case i >= 0 && len(all[i].missing) == 0:
	case id != "" && i < 0:
		return &SetupError{fmt.Sprintf("stack %s has no pipeline %s", s.Name, id), s.advice(complete), nil}
	case id == "" && len(complete) == 1:
		i = slices.IndexFunc(all, func(c candidate) bool { return c.prefix == complete[0] })
	case id == "" && len(complete) > 1:
		return &SetupError{fmt.Sprintf("stack %s has %d pipelines", s.Name, len(complete)), s.advice(complete), nil}
	default:
		missing := all[max(i, 0)].missing
		return &SetupError{
			fmt.Sprintf("stack %s (%s) has no output %s", s.Name, status, strings.Join(missing, ", ")),
			"it is not a system of once, or was not deployed to the end: deploy it again, and call NewOutputs of package infra in an app of your own", nil,
		}
	}
	s.Outputs = all[i].outputs
	for j, c := range all {
		if j != i && c.outputs.GroupsTable != "" {
			s.others = append(s.others, c.outputs.GroupsTable)
		}
	}
	return nil
}

// missingPermission is the advice if a permission is missing.
const missingPermission = "docs/cli.md has the permissions that each command needs"

// advice lists the names that --stack accepts for the pipelines of the stack.
func (s *Stack) advice(prefixes []string) string {
	names := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		if names[i] = s.Name; prefix != "" {
			names[i] += "/" + prefix
		}
	}
	if len(names) == 0 {
		return "it has none: call NewOutputs of package infra for each pipeline, and deploy it again"
	}
	return "name it as " + strings.Join(names, " or ")
}

// explain returns a [*DeniedError] if a permission is missing or credentials are stale. Other
// errors stay as they are.
func explain(err error) error {
	var refused smithy.APIError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.ErrorCode() {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation":
		return &DeniedError{missingPermission, err}
	case "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidSignatureException", "SignatureDoesNotMatch":
		return &DeniedError{"sign in again, or choose another --profile", err}
	}
	return err
}
