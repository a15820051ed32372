package deployed_test

import (
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config/change"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func TestWaitingCountsGroupsEffectsAndQueues(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("o-1", ann), order("o-2", ann), numbered(3), numbered(2))
	w.take(t, "PublishFifo")
	sent := w.queue("Ingress").Send(t.Context(), []queue.Message{{Body: "x"}})
	if sent[0].Err != nil {
		t.Fatal(sent[0].Err)
	}
	url := awstest.Queue(t, w.sqs, strings.TrimSuffix(w.aws.Outputs["GroupsTable"], "groups")+"files", nil)
	if _, err := w.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("{}")}); err != nil {
		t.Fatal(err)
	}
	process := w.aws.Functions["process"]
	process.Environment = maps.Clone(process.Environment)
	process.Environment[environment.SourceQueues] = "files=" + path.Base(url)
	w.aws.Functions["process"] = process
	got, err := w.system.Waiting(t.Context())
	want := change.Waiting{
		Streams: map[string]change.Stream{"orders": {Groups: 1, Pending: 2}, "chat": {Groups: 1, Held: 2}},
		Effects: map[string]int{"shop": 2}, Queued: 2, Sources: map[string]int{"files": 1},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n-want +got\n%s", err, d)
	}
}
