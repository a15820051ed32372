package deployed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	system "github.com/effectively-once/once/internal/system/function"
)

// A function is one of the stack's functions that run the engine.
type function struct {
	name, arn   string
	timeout     time.Duration
	logGroup    string
	environment map[string]string
}

// functions lists the functions of the stack whose environment is that of the engine, in the order
// of the template, without those of other pipelines.
func (s *Stack) functions(ctx context.Context) ([]function, error) {
	var out []function
	pages := cloudformation.NewListStackResourcesPaginator(s.cloudformation, &cloudformation.ListStackResourcesInput{StackName: &s.Name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list resources of stack %s: %w", s.Name, explain(err))
		}
		for _, r := range page.StackResourceSummaries {
			if aws.ToString(r.ResourceType) != "AWS::Lambda::Function" {
				continue
			}
			f, err := s.function(ctx, aws.ToString(r.PhysicalResourceId))
			if err != nil {
				return nil, err
			}
			if table, ok := f.environment[system.EnvGroupsTable]; ok && !slices.Contains(s.others, table) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

func (s *Stack) function(ctx context.Context, name string) (function, error) {
	c, err := s.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return function{}, fmt.Errorf("read configuration of function %s: %w", name, explain(err))
	}
	f := function{name: name, arn: aws.ToString(c.FunctionArn), timeout: time.Duration(aws.ToInt32(c.Timeout)) * time.Second}
	f.logGroup = "/aws/lambda/" + name
	if c.LoggingConfig != nil && aws.ToString(c.LoggingConfig.LogGroup) != "" {
		f.logGroup = *c.LoggingConfig.LogGroup
	}
	if c.Environment != nil {
		f.environment = c.Environment.Variables
	}
	return f, nil
}

// trusted lists the senders that the functions trust.
func (s *Stack) trusted(ctx context.Context) ([]string, error) {
	functions, err := s.functions(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		if list := f.environment[system.EnvTrustedSenders]; list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, &SetupError{
		fmt.Sprintf("no function of stack %s has %s", s.Name, system.EnvTrustedSenders),
		"without it, claims in a dead letter can't be distinguished from facts that the API recorded: deploy the stack again", nil,
	}
}
