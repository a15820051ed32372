package deployed

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/system/function/environment"
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
	form := url.Values{"StackName": {s.Name}}
	for more := true; more; more = form.Get("NextToken") != "" {
		var page struct {
			Resources []struct{ ResourceType, PhysicalResourceId string } `xml:"ListStackResourcesResult>StackResourceSummaries>member"` //nolint:revive // as the API has it
			NextToken string                                              `xml:"ListStackResourcesResult>NextToken"`
		}
		if err := s.cloudformation.Form(ctx, "ListStackResources", form, &page); err != nil {
			return nil, fmt.Errorf("list resources of stack %s: %w", s.Name, explain(err))
		}
		form.Set("NextToken", page.NextToken)
		for _, r := range page.Resources {
			if r.ResourceType != "AWS::Lambda::Function" {
				continue
			}
			f, err := s.function(ctx, r.PhysicalResourceId)
			if err != nil {
				return nil, err
			}
			if table, ok := f.environment[environment.GroupsTable]; ok && !slices.Contains(s.others, table) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// A functionConfiguration is what Lambda knows of a function.
type functionConfiguration struct {
	FunctionArn   string
	Timeout       int // seconds
	LoggingConfig struct{ LogGroup string }
	Environment   struct{ Variables map[string]string }
}

// A functionCode is a function with its code, as GetFunction returns it.
type functionCode struct {
	Configuration functionConfiguration
	Code          struct{ Location string }
}

// get asks Lambda for a function and its code.
func (s *Stack) get(ctx context.Context, function string) (f functionCode, err error) {
	return f, s.lambda.Get(ctx, "GetFunction", call.FunctionPath(function, ""), nil, &f)
}

func (s *Stack) function(ctx context.Context, name string) (function, error) {
	var c functionConfiguration
	if err := s.lambda.Get(ctx, "GetFunctionConfiguration", call.FunctionPath(name, "configuration"), nil, &c); err != nil {
		return function{}, fmt.Errorf("read configuration of function %s: %w", name, explain(err))
	}
	return function{
		name: name, arn: c.FunctionArn, timeout: time.Duration(c.Timeout) * time.Second,
		logGroup: cmp.Or(c.LoggingConfig.LogGroup, "/aws/lambda/"+name), environment: c.Environment.Variables,
	}, nil
}

// trusted lists the senders that the functions trust.
func (s *Stack) trusted(ctx context.Context) ([]string, error) {
	functions, err := s.functions(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		if list := f.environment[environment.TrustedSenders]; list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, &SetupError{
		fmt.Sprintf("no function of stack %s has %s", s.Name, environment.TrustedSenders),
		"without it, claims in a dead letter can't be distinguished from facts that the API recorded: deploy the stack again", nil,
	}
}
