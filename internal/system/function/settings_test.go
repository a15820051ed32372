package function

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
)

const webhookConfig = "streams:\n  orders: {destinations: [shop]}\ndestinations:\n  shop: {webhook: \"https://shop.example/hook\"}\n"

func environment(changes map[string]string) func(string) string {
	env := map[string]string{
		EnvConfig: webhookConfig, EnvGroupsTable: "groups", EnvTokensTable: "tokens",
		EnvIngressQueue: "https://q/1/ingress", EnvIngressFIFOQueue: "https://q/1/ingress.fifo", EnvPublishQueue: "https://q/1/publish",
		EnvPublishFIFOQueue: "https://q/1/publish.fifo", EnvDeadQueue: "https://q/1/dead", EnvDeadPublishQueue: "https://q/1/dead-publish",
		EnvTrustedSenders: "AROA1, AROA2",
	}
	maps.Copy(env, changes)
	return func(name string) string { return env[name] }
}

func TestSettingsComeFromTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.yaml")
	if err := os.WriteFile(path, []byte(webhookConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{webhookConfig, path} {
		s, err := ReadSettings(environment(map[string]string{EnvConfig: config}))
		if err != nil {
			t.Fatal(err)
		}
		if names := s.Config.StreamNames(); !cmp.Equal(names, []string{"orders"}) {
			t.Errorf("streams %v", names)
		}
		s.Config = nil
		want := Settings{
			Tables: dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, Trusted: []string{"AROA1", "AROA2"},
			Queues: QueueURLs{
				Ingress: "https://q/1/ingress", IngressFIFO: "https://q/1/ingress.fifo", Publish: "https://q/1/publish",
				PublishFIFO: "https://q/1/publish.fifo", Dead: "https://q/1/dead", DeadPublish: "https://q/1/dead-publish",
			},
		}
		if d := cmp.Diff(want, s); d != "" {
			t.Errorf("settings (-want +got):\n%s", d)
		}
	}
}

func TestAProcessFunctionWarnsOfASourceThatHasNoQueue(t *testing.T) {
	config := webhookConfig + "ingress: {uploads: {from: s3, stream: orders}, news: {from: sns, stream: orders}}\n"
	settings, err := ReadSettings(environment(map[string]string{EnvConfig: config, EnvSourceQueues: "uploads=Once-uploads-2"}))
	if err != nil {
		t.Fatal(err)
	}
	for function, want := range map[Function]int{Ingest: 0, Process: 1, Publish: 0} {
		var out strings.Builder
		if _, err := Open(function, settings, NewClients(aws.Config{Region: "eu-central-1"}), slog.New(slog.NewJSONHandler(&out, nil))); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "source has no queue"); n != want || want > 0 && !strings.Contains(out.String(), `"ingress":"news"`) {
			t.Errorf("%s warns %d times, not %d: %s", function, n, want, out.String())
		}
	}
}

func TestTheQueuesOfSourcesAreBesideTheIngressQueue(t *testing.T) {
	s, err := ReadSettings(environment(map[string]string{EnvSourceQueues: "orders=Once-orders-1, uploads=Once-uploads-2.fifo"}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"orders": "https://q/1/Once-orders-1", "uploads": "https://q/1/Once-uploads-2.fifo"}, s.Queues.Sources); d != "" {
		t.Errorf("queues (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"Once-orders-1": "orders", "Once-uploads-2.fifo": "uploads"}, s.Queues.byQueue()); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	for _, list := range []string{"orders", "=q", "a=q,", "a=q,a=r"} {
		if _, err := ReadSettings(environment(map[string]string{EnvSourceQueues: list})); err == nil || !strings.Contains(err.Error(), EnvSourceQueues) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestTheHandlersOfTheDeploymentAreInTheEnvironment(t *testing.T) {
	const arn = "arn:aws:lambda:eu-central-1:123456789012:function:Shop-Orders-1"
	for list, want := range map[string]string{"": "", "orders=" + arn: arn, " orders=" + arn + ":live": arn + ":live"} {
		s, err := ReadSettings(environment(map[string]string{EnvHandlers: list}))
		if err != nil || s.Config.Handlers["orders"].Lambda != want {
			t.Errorf("%q: got %+v, %v, want %q as the handler of orders", list, s.Config, err, want)
		}
	}
	for _, list := range []string{"orders", "=f", "orders=f,", "orders=f,orders=g", "order=f", "orders=f g"} {
		if _, err := ReadSettings(environment(map[string]string{EnvHandlers: list})); err == nil || !strings.Contains(err.Error(), EnvHandlers) {
			t.Errorf("%q: got %v, want an error that names %s", list, err, EnvHandlers)
		}
	}
}

func TestTheErrorNamesEachInvalidVariable(t *testing.T) {
	_, err := ReadSettings(environment(map[string]string{EnvGroupsTable: "", EnvDeadQueue: "", EnvConfig: "streams: {}\n"}))
	for _, part := range []string{EnvGroupsTable, EnvDeadQueue, EnvConfig} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, which does not name %s", err, part)
		}
	}
}

func TestWithoutTrustedSendersNothingStarts(t *testing.T) {
	for _, list := range []string{"", ",", "AROA1,", "AROA1, ,AROA2", " "} {
		if _, err := ReadSettings(environment(map[string]string{EnvTrustedSenders: list})); err == nil || !strings.Contains(err.Error(), EnvTrustedSenders) {
			t.Errorf("%q: got %v", list, err)
		}
	}
}

func TestADestinationThatTheFunctionsDoNotHaveIsAnErrorAtTheStart(t *testing.T) {
	config := "streams:\n  orders: {destinations: [a, b, c, d, e]}\ndestinations:\n" +
		"  a: {sqs: billing}\n  b: {sns: news}\n  c: {eventbridge: default}\n  d: {file: out.jsonl}\n  e: {webhook: \"https://shop.example/hook\"}\n"
	settings, err := ReadSettings(environment(map[string]string{EnvConfig: config}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(Process, settings, NewClients(aws.Config{Region: "eu-west-1"}), nil)
	if !errors.Is(err, errDestination) {
		t.Fatalf("got %v, want %v", err, errDestination)
	}
	for _, name := range []string{"destination d", "out.jsonl"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
	for _, name := range []string{"destination a", "destination b", "destination c", "destination e"} {
		if strings.Contains(err.Error(), name) {
			t.Errorf("%q names %s, which is served", err, name)
		}
	}
}
