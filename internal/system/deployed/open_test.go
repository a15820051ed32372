package deployed_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
)

// complete returns all outputs of a stack, with dummy values.
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
	s, err := deployed.Open(t.Context(), deployed.Options{Name: "Once", Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Region != "eu-west-1" || s.Outputs.GroupsTable != "value of GroupsTable" || s.Outputs.DeadPublishFIFOQueueURL != "value of DeadPublishFifoQueueUrl" {
		t.Errorf("got %+v", s)
	}
}

func TestAMissingPartIsNamedWithItsRemedy(t *testing.T) {
	for _, c := range []struct {
		name    string
		options deployed.Options
		change  func(t *testing.T, a *stacktest.AWS)
		want    []string
	}{
		{"no stack", deployed.Options{Name: "Once"}, func(_ *testing.T, a *stacktest.AWS) { a.Stack = "" }, []string{"no stack Once in us-east-1", "--region"}},
		{"outputs", deployed.Options{Name: "Once"}, func(_ *testing.T, a *stacktest.AWS) {
			maps.DeleteFunc(a.Outputs, func(name, _ string) bool { return strings.HasPrefix(name, "Dead") || name == "Bucket" })
		}, []string{"has no output Bucket, DeadQueueUrl, DeadFifoQueueUrl", "deploy it again"}},
		{"region", deployed.Options{Name: "Once"}, func(t *testing.T, _ *stacktest.AWS) { t.Helper(); t.Setenv("AWS_REGION", "") }, []string{"no AWS region", "--region"}},
		{"profile", deployed.Options{Name: "Once", Profile: "prod"}, func(*testing.T, *stacktest.AWS) {}, []string{`no AWS profile "prod"`}},
		{"credentials", deployed.Options{Name: "Once"}, func(t *testing.T, _ *stacktest.AWS) { t.Helper(); t.Setenv("AWS_ACCESS_KEY_ID", "") }, []string{"no AWS credentials", "aws sso login"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			aws := stacktest.Start(t)
			aws.Outputs = complete()
			c.change(t, aws)
			_, err := deployed.Open(t.Context(), c.options)
			if _, ok := errors.AsType[*deployed.SetupError](err); !ok {
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
	_, err := deployed.Open(t.Context(), deployed.Options{Name: "Once"})
	var denied *deployed.DeniedError
	if !errors.As(err, &denied) || !strings.Contains(err.Error(), "permissions") {
		t.Errorf("got %v", err)
	}
}
