package deployed_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
	"github.com/effectively-once/once/internal/system/function/environment"
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

// outputsOf returns all outputs of pipelines with these prefixes.
func outputsOf(prefixes ...string) map[string]string {
	out := map[string]string{}
	for _, prefix := range prefixes {
		for name := range complete() {
			out[prefix+name] = "value of " + prefix + name
		}
	}
	return out
}

func TestAPipelineIsFoundByItsIDAfterTheNameOfItsStack(t *testing.T) {
	const arn = "arn:aws:cloudformation:eu-west-1:123456789012:stack/Once/0a1b"
	for _, c := range []struct {
		name     string
		prefixes []string
		stack    string
		want     string // the prefix
	}{
		{"Once/Orders", []string{"Orders", "Billing"}, "Once", "Orders"},
		{"Once/Billing", []string{"Orders", "Billing"}, "Once", "Billing"},
		{"Once/late-orders", []string{"LateOrders", "Billing"}, "Once", "LateOrders"},
		{"Once", []string{"Orders"}, "Once", "Orders"},
		{"Once", []string{"", "Orders"}, "Once", ""},
		{arn, []string{"Orders"}, arn, "Orders"},
		{arn + "/Billing", []string{"Orders", "Billing"}, arn, "Billing"},
	} {
		aws := stacktest.Start(t)
		aws.Stack, aws.Outputs = c.stack, outputsOf(c.prefixes...)
		s, err := deployed.Open(t.Context(), deployed.Options{Name: c.name})
		if err != nil {
			t.Errorf("%s in %q: %v", c.name, c.prefixes, err)
			continue
		}
		if want := "value of " + c.want + "GroupsTable"; s.Outputs.GroupsTable != want || s.Name != c.stack {
			t.Errorf("%s in %q: got table %q of stack %s, want %q", c.name, c.prefixes, s.Outputs.GroupsTable, s.Name, want)
		}
	}
}

func TestCheckLeavesOutTheFunctionsOfOtherPipelines(t *testing.T) {
	aws := stacktest.Start(t)
	aws.Outputs = outputsOf("Orders", "Billing")
	for name, table := range map[string]string{"own": "value of OrdersGroupsTable", "stale": "of nobody", "foreign": "value of BillingGroupsTable"} {
		aws.Functions[name] = stacktest.Function{Environment: map[string]string{environment.GroupsTable: table}}
	}
	neither := httptest.NewServer(http.NotFoundHandler()) // tables nor queues
	t.Cleanup(neither.Close)
	t.Setenv("AWS_ENDPOINT_URL", neither.URL)
	s, err := deployed.Open(t.Context(), deployed.Options{Name: "Once/Orders"})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range findings {
		found[f.Resource] = true
	}
	if !found["own"] || !found["stale"] || found["foreign"] {
		t.Errorf("found %v", found)
	}
}

func TestAPipelineThatIsNotClearIsAnErrorThatNamesThePipelines(t *testing.T) {
	for _, c := range []struct {
		name     string
		prefixes []string
		want     string
	}{
		{"Once", []string{"Orders", "Billing"}, "stack Once has 2 pipelines: name it as Once/Billing or Once/Orders"},
		{"Once/Other", []string{"Orders", "Billing"}, "stack Once has no pipeline Other: name it as Once/Billing or Once/Orders"},
		{"Once/Other", []string{""}, "stack Once has no pipeline Other: name it as Once"},
		{"Once/Other", nil, "stack Once has no pipeline Other: it has none"},
	} {
		aws := stacktest.Start(t)
		aws.Outputs = outputsOf(c.prefixes...)
		_, err := deployed.Open(t.Context(), deployed.Options{Name: c.name})
		if _, ok := errors.AsType[*deployed.SetupError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %q: got %v, want %s", c.name, c.prefixes, err, c.want)
		}
	}
	aws := stacktest.Start(t)
	aws.Outputs = outputsOf("Orders", "Billing")
	delete(aws.Outputs, "OrdersBucket")
	_, err := deployed.Open(t.Context(), deployed.Options{Name: "Once/Orders"})
	if err == nil || !strings.Contains(err.Error(), "has no output OrdersBucket") {
		t.Errorf("got %v", err)
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
