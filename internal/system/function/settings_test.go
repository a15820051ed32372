package function

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/effectively-once/once/internal/system/function/environment"
)

const webhookConfig = "streams:\n  orders: {destinations: [shop]}\ndestinations:\n  shop: {webhook: \"https://shop.example/hook\"}\n"

func variables(changes map[string]string) func(string) string {
	env := map[string]string{
		environment.Config: webhookConfig, environment.GroupsTable: "groups", environment.TokensTable: "tokens",
		environment.IngressQueue: "https://q/1/ingress", environment.IngressFIFOQueue: "https://q/1/ingress.fifo", environment.PublishQueue: "https://q/1/publish",
		environment.PublishFIFOQueue: "https://q/1/publish.fifo", environment.DeadQueue: "https://q/1/dead", environment.DeadPublishQueue: "https://q/1/dead-publish",
		environment.TrustedSenders: "AROA1, AROA2",
	}
	maps.Copy(env, changes)
	return func(name string) string { return env[name] }
}

func TestAProcessFunctionWarnsOfASourceThatHasNoQueue(t *testing.T) {
	config := webhookConfig + "ingress: {uploads: {from: s3, stream: orders}, news: {from: sns, stream: orders}}\n"
	settings, err := environment.Read(variables(map[string]string{environment.Config: config, environment.SourceQueues: "uploads=Once-uploads-2"}))
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

func TestADestinationThatTheFunctionsDoNotHaveIsAnErrorAtTheStart(t *testing.T) {
	config := "streams:\n  orders: {destinations: [a, b, c, d, e]}\ndestinations:\n" +
		"  a: {sqs: billing}\n  b: {sns: news}\n  c: {eventbridge: default}\n  d: {file: out.jsonl}\n  e: {webhook: \"https://shop.example/hook\"}\n"
	settings, err := environment.Read(variables(map[string]string{environment.Config: config}))
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
