package environment

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
)

const webhookConfig = "streams:\n  orders: {destinations: [shop]}\ndestinations:\n  shop: {webhook: \"https://shop.example/hook\"}\n"

func variables(changes map[string]string) func(string) string {
	env := map[string]string{
		Config: webhookConfig, GroupsTable: "groups", TokensTable: "tokens",
		IngressQueue: "https://q/1/ingress", IngressFIFOQueue: "https://q/1/ingress.fifo", PublishQueue: "https://q/1/publish",
		PublishFIFOQueue: "https://q/1/publish.fifo", DeadQueue: "https://q/1/dead", DeadPublishQueue: "https://q/1/dead-publish",
		TrustedSenders: "AROA1, AROA2",
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
		s, err := Read(variables(map[string]string{Config: config}))
		if err != nil {
			t.Fatal(err)
		}
		if names := s.Config.StreamNames(); !cmp.Equal(names, []string{"orders"}) {
			t.Errorf("streams %v", names)
		}
		s.Config = nil
		want := Settings{
			Tables: dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, Trusted: []string{"AROA1", "AROA2"},
			Queues: Queues{
				Ingress: "https://q/1/ingress", IngressFIFO: "https://q/1/ingress.fifo", Publish: "https://q/1/publish",
				PublishFIFO: "https://q/1/publish.fifo", Dead: "https://q/1/dead", DeadPublish: "https://q/1/dead-publish",
			},
		}
		if d := cmp.Diff(want, s); d != "" {
			t.Errorf("settings (-want +got):\n%s", d)
		}
	}
}

func TestTheQueuesOfSourcesAreBesideTheIngressQueue(t *testing.T) {
	s, err := Read(variables(map[string]string{SourceQueues: "orders=Once-orders-1, uploads=Once-uploads-2.fifo"}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"orders": "https://q/1/Once-orders-1", "uploads": "https://q/1/Once-uploads-2.fifo"}, s.Queues.Sources); d != "" {
		t.Errorf("queues (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"Once-orders-1": "orders", "Once-uploads-2.fifo": "uploads"}, s.Queues.ByQueue()); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	for _, list := range []string{"orders", "=q", "a=q,", "a=q,a=r"} {
		if _, err := Read(variables(map[string]string{SourceQueues: list})); err == nil || !strings.Contains(err.Error(), SourceQueues) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestTheHandlersOfTheDeploymentAreInTheEnvironment(t *testing.T) {
	const arn = "arn:aws:lambda:eu-central-1:123456789012:function:Shop-Orders-1"
	for list, want := range map[string]string{"": "", "orders=" + arn: arn, " orders=" + arn + ":live": arn + ":live"} {
		s, err := Read(variables(map[string]string{Handlers: list}))
		if err != nil || s.Config.Handlers["orders"].Lambda != want {
			t.Errorf("%q: got %+v, %v, want %q as the handler of orders", list, s.Config, err, want)
		}
	}
	for _, list := range []string{"orders", "=f", "orders=f,", "orders=f,orders=g", "order=f", "orders=f g"} {
		if _, err := Read(variables(map[string]string{Handlers: list})); err == nil || !strings.Contains(err.Error(), Handlers) {
			t.Errorf("%q: got %v, want an error that names %s", list, err, Handlers)
		}
	}
}

func TestTheErrorNamesEachInvalidVariable(t *testing.T) {
	_, err := Read(variables(map[string]string{GroupsTable: "", DeadQueue: "", Config: "streams: {}\n"}))
	for _, part := range []string{GroupsTable, DeadQueue, Config} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, which does not name %s", err, part)
		}
	}
}

func TestWithoutTrustedSendersNothingStarts(t *testing.T) {
	for _, list := range []string{"", ",", "AROA1,", "AROA1, ,AROA2", " "} {
		if _, err := Read(variables(map[string]string{TrustedSenders: list})); err == nil || !strings.Contains(err.Error(), TrustedSenders) {
			t.Errorf("%q: got %v", list, err)
		}
	}
}
