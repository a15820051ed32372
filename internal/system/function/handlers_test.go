package function

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/effectively-once/once/internal/system/function/environment"
)

func TestOnlyTheFunctionsThatRunHandlersOpenThem(t *testing.T) {
	const config = "streams: {orders: {}, mail: {}, jobs: {}}\nhandlers:\n  orders: {lambda: orders}\n" +
		"  mail: {url: \"https://mail.example\", secret: \"env:SECRET_THAT_IS_NOT_SET\"}\n  jobs: {exec: python3 jobs.py}\n"
	settings, err := environment.Read(variables(map[string]string{environment.Config: config}))
	if err != nil {
		t.Fatal(err)
	}
	for _, function := range []Function{Ingest, Process} {
		_, err := Open(function, settings, NewClients(aws.Config{Region: "eu-central-1"}), nil)
		for _, want := range []string{"handler of stream mail", "SECRET_THAT_IS_NOT_SET", "handler of stream jobs: exec works in once dev only"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want an error with %q", function, err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "stream orders") {
			t.Errorf("%s: got %v, want no error about the function, which is not called at the start", function, err)
		}
	}
	if _, err := Open(Publish, settings, NewClients(aws.Config{Region: "eu-central-1"}), nil); err != nil {
		t.Errorf("publish: got %v, want no error, because it runs no handler", err)
	}
}
