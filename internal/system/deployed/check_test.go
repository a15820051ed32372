package deployed_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/function/environment"
)

// wrong returns the problems and unknowns that a check reports, as "resource check".
func (w *world) wrong(t *testing.T) []string {
	t.Helper()
	w.open(t)
	findings, err := w.stack.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.TrimSuffix(w.aws.Outputs["GroupsTable"], "groups")
	var out []string
	for _, f := range findings {
		// DynamoDB Local and ElasticMQ do not have these
		if f.Verdict != deployed.OK && f.Check != "point-in-time recovery" && f.Check != "retention" {
			out = append(out, strings.TrimPrefix(f.Resource, prefix)+" "+f.Check)
			if f.Detail == "" {
				t.Errorf("%+v says nothing", f)
			}
		}
	}
	return out
}

func TestCheckFindsNoProblemInADeployedStack(t *testing.T) {
	w := newWorld(t)
	if got := w.wrong(t); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestCheckNamesEachProblem(t *testing.T) {
	w := newWorld(t)
	url := w.aws.Outputs["IngressQueueUrl"]
	if _, err := w.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"VisibilityTimeout": "30"}}); err != nil {
		t.Fatal(err)
	}
	process, publish := w.aws.Functions["process"], w.aws.Functions["publish"]
	process.Environment = maps.Clone(process.Environment)
	process.Environment[environment.GroupsTable], process.Environment[environment.TrustedSenders] = "another", ""
	publish.Whole, publish.Queues = publish.Queues[:1], nil
	publish.Config += "# changed\n"
	w.aws.Functions["process"], w.aws.Functions["publish"] = process, publish
	w.aws.Outputs["TokensTable"] = "gone"
	want := []string{
		"gone table", "Publish partial batches", "PublishFifo.fifo delivery", "Ingress visibility", "PublishFifo.fifo visibility",
		"process ONCE_GROUPS_TABLE", "process ONCE_TOKENS_TABLE", "process ONCE_TRUSTED_SENDERS",
		"publish ONCE_TOKENS_TABLE", "publish configuration",
	}
	if d := cmp.Diff(want, w.wrong(t)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestASourceThatTheTemplateHasNoQueueForIsWrong(t *testing.T) {
	w := newWorldOf(t, configuration+"ingress: {files: {from: s3, stream: orders}, news: {from: sns, stream: orders}}\n")
	process := w.aws.Functions["process"]
	process.Environment = maps.Clone(process.Environment)
	process.Environment[environment.SourceQueues] = "files=a-queue"
	w.aws.Functions["process"] = process
	if d := cmp.Diff([]string{"ingress.news queue"}, w.wrong(t)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	missing, err := w.stack.SourcesWithoutQueue(t.Context(), w.config)
	if err != nil || !slices.Equal(missing, []string{"news"}) {
		t.Errorf("without a queue: %q, %v", missing, err)
	}
}

func TestAResourceThatCanNotBeReadIsUnknown(t *testing.T) {
	w := newWorld(t)
	for _, denied := range []string{"GetFunctionConfiguration", "GetFunction"} {
		w.aws.Denied = []string{denied}
		findings, err := w.stack.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unknown := 0
		for _, f := range findings {
			if f.Verdict == deployed.Unknown {
				unknown++
			}
		}
		if unknown < 2 {
			t.Errorf("without %s: got %+v", denied, findings)
		}
	}
}
