package stack_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/stack"
	"github.com/effectively-once/once/internal/stack/stacktest"
)

// complete gives the outputs of a stack that is only looked for.
func complete() map[string]string {
	out := map[string]string{}
	for name := range strings.FieldsSeq("ApiUrl GroupsTable TokensTable Bucket IngressQueueUrl IngressFifoQueueUrl PublishQueueUrl PublishFifoQueueUrl " +
		"DeadQueueUrl DeadFifoQueueUrl DeadPublishQueueUrl DeadPublishFifoQueueUrl") {
		out[name] = "value of " + name
	}
	return out
}

func TestAStackIsFoundByItsOutputs(t *testing.T) {
	aws := stacktest.Start(t)
	aws.Outputs = complete()
	s, err := stack.Open(t.Context(), stack.Options{Name: "Once", Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Region != "eu-west-1" || s.Outputs.GroupsTable != "value of GroupsTable" || s.Outputs.DeadPublishFIFOQueueURL != "value of DeadPublishFifoQueueUrl" {
		t.Errorf("got %+v", s)
	}
}

func TestWhatIsMissingIsNamedWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name    string
		options stack.Options
		change  func(t *testing.T, a *stacktest.AWS)
		want    []string
	}{
		{"no stack", stack.Options{Name: "Once"}, func(_ *testing.T, a *stacktest.AWS) { a.Stack = "" }, []string{"no stack Once in us-east-1", "--region"}},
		{"outputs", stack.Options{Name: "Once"}, func(_ *testing.T, a *stacktest.AWS) {
			maps.DeleteFunc(a.Outputs, func(name, _ string) bool { return strings.HasPrefix(name, "Dead") || name == "Bucket" })
		}, []string{"has no output Bucket, DeadQueueUrl, DeadFifoQueueUrl", "deploy it again"}},
		{"region", stack.Options{Name: "Once"}, func(t *testing.T, _ *stacktest.AWS) { t.Helper(); t.Setenv("AWS_REGION", "") }, []string{"no AWS region", "--region"}},
		{"profile", stack.Options{Name: "Once", Profile: "prod"}, func(*testing.T, *stacktest.AWS) {}, []string{`no AWS profile "prod"`}},
		{"credentials", stack.Options{Name: "Once"}, func(t *testing.T, _ *stacktest.AWS) { t.Helper(); t.Setenv("AWS_ACCESS_KEY_ID", "") }, []string{"no AWS credentials", "aws sso login"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			aws := stacktest.Start(t)
			aws.Outputs = complete()
			c.change(t, aws)
			_, err := stack.Open(t.Context(), c.options)
			if _, ok := errors.AsType[*stack.SetupError](err); !ok {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
		})
	}
}

func TestAMissingPermissionIsARefusal(t *testing.T) {
	aws := stacktest.Start(t)
	aws.Denied = []string{"DescribeStacks"}
	_, err := stack.Open(t.Context(), stack.Options{Name: "Once"})
	var denied *stack.DeniedError
	if !errors.As(err, &denied) || !strings.Contains(err.Error(), "permissions") {
		t.Errorf("got %v", err)
	}
}
