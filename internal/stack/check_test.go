package stack_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/lambda"
	"github.com/effectively-once/once/internal/stack"
)

// wrong gives what a check has found to be wrong or unknown, as "resource check".
func (w *world) wrong(t *testing.T, text string) []string {
	t.Helper()
	w.open(t)
	findings, err := w.stack.Check(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.TrimSuffix(w.aws.Outputs["GroupsTable"], "groups")
	var out []string
	for _, f := range findings {
		if f.Verdict != stack.OK && f.Check != "point-in-time recovery" && f.Check != "retention" { // which DynamoDB Local and ElasticMQ do not have
			out = append(out, strings.TrimPrefix(f.Resource, prefix)+" "+f.Check)
			if f.Detail == "" {
				t.Errorf("%+v says nothing", f)
			}
		}
	}
	return out
}

func TestCheckFindsNothingWrongInWhatWasDeployed(t *testing.T) {
	w := newWorld(t)
	if got := w.wrong(t, configuration); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	url := w.aws.Outputs["IngressQueueUrl"]
	if _, err := w.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"VisibilityTimeout": "30"}}); err != nil {
		t.Fatal(err)
	}
	process, publish := w.aws.Functions["process"], w.aws.Functions["publish"]
	process.Environment = maps.Clone(process.Environment)
	process.Environment[lambda.EnvGroupsTable], process.Environment[lambda.EnvTrustedSenders] = "another", ""
	publish.Whole, publish.Queues = publish.Queues[:1], nil
	w.aws.Functions["process"], w.aws.Functions["publish"] = process, publish
	w.aws.Outputs["TokensTable"] = "gone"
	want := []string{
		"gone table", "Publish partial batches", "PublishFifo.fifo delivery", "Ingress visibility", "PublishFifo.fifo visibility",
		"process ONCE_GROUPS_TABLE", "process ONCE_TOKENS_TABLE", "process ONCE_TRUSTED_SENDERS", "process configuration",
		"publish ONCE_TOKENS_TABLE", "publish configuration",
	}
	if d := cmp.Diff(want, w.wrong(t, configuration+"\n# changed\n")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestWhatCanNotBeLookedAtIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.aws.Denied = []string{"GetFunctionConfiguration"}
	findings, err := w.stack.Check(t.Context(), []byte(configuration))
	if err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for _, f := range findings {
		if f.Verdict == stack.Unknown {
			unknown++
		}
	}
	if unknown < 2 {
		t.Errorf("got %+v", findings)
	}
}
