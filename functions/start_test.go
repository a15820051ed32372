package functions_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTheFunctionsStartWithoutTheSchemasOfRareClients keeps starts short: newer clients of the SDK
// build the schemas of all their operations before main runs, which is worth its time only for
// clients that are called for each message. docs/dependencies.md names the clients that are kept at
// an older version.
func TestTheFunctionsStartWithoutTheSchemasOfRareClients(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const services = "github.com/aws/aws-sdk-go-v2/service/"
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, services+"dynamodb/schemas") {
		t.Fatal("go list does not name the schemas of DynamoDB")
	}
	// The first two are called for each message; the credentials' clients are small.
	worth := []string{"dynamodb", "sqs", "signin", "sso", "ssooidc"}
	for _, dep := range deps {
		service, is := strings.CutPrefix(strings.TrimSuffix(dep, "/schemas"), services)
		if is && strings.HasSuffix(dep, "/schemas") && !slices.Contains(worth, service) {
			t.Errorf("the functions build the schemas of %s at each start: measure it by go -C bench run . -only functions, and hold the client back if it is not worth it", service)
		}
	}
}
