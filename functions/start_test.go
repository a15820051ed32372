package functions_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTheFunctionsStartWithoutWhatTheyRarelyUse keeps starts short. OpenTelemetry's own exporters
// and the SDK's ways to log in are not linked. Clients of the SDK build the
// schemas of all their operations before main runs, which is worth its time only for clients that
// are called for each message. Package internal/aws/call makes the other calls.
func TestTheFunctionsStartWithoutWhatTheyRarelyUse(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-tags", "lambda.norpc", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const services = "github.com/aws/aws-sdk-go-v2/service/"
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, services+"dynamodb/schemas") {
		t.Fatal("go list does not name the schemas of DynamoDB")
	}
	worth := []string{"dynamodb", "sqs"} // they are called for each message
	for _, dep := range deps {
		service, is := strings.CutPrefix(strings.TrimSuffix(dep, "/schemas"), services)
		if is && strings.HasSuffix(dep, "/schemas") && !slices.Contains(worth, service) {
			t.Errorf("the functions build the schemas of %s at each start: measure it by go -C bench run . -only functions, and call it by internal/aws/call if it is not worth it", service)
		}
	}
	for _, dep := range deps {
		for _, slow := range []string{"github.com/aws/aws-sdk-go-v2/config", "go.opentelemetry.io/otel/exporters", "google.golang.org/grpc", "google.golang.org/protobuf/proto", "google.golang.org/protobuf/runtime"} {
			if dep == slow || strings.HasPrefix(dep, slow+"/") {
				t.Errorf("the functions initialize %s at each start", dep)
			}
		}
	}
}
