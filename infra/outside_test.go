package infra

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// module returns the text of go.mod of a module outside of this repository. Only its replace lines
// name the repository, because nothing is published.
func module(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`(?m)^(module|replace) .*\n`).ReplaceAllString(string(text), "")
	const once = "github.com/effectively-once/once"
	return "module shop.example/shop\n" + own + "\nrequire " + once + "/infra v0.0.0\n\nreplace " + once + " => " + root + "\n\nreplace " + once + "/infra => " + root + "/infra\n"
}

// outside returns the template of the app in testdata/shop, built in a module of its own.
func outside(t *testing.T) *template {
	t.Helper()
	folder := t.TempDir()
	for from, to := range map[string]string{"testdata/shop/main.go": "main.go", "go.sum": "go.sum"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, to), string(text))
	}
	write(t, filepath.Join(folder, "go.mod"), module(t))
	run := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", "-ldflags=-s -w", ".")
	run.Dir = folder
	run.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "FUNCTIONS="+bootstraps(t), "CDK_OUTDIR=cdk.out")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(folder, "cdk.out", "Shop.template.json"))
	if err != nil {
		t.Fatal(err)
	}
	x := &template{}
	if err := json.Unmarshal(data, x); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestAnAppOutsideOfTheRepositoryHasTwoPipelinesWithNetworkKeyDomainAndWebACL(t *testing.T) {
	x := outside(t)
	key, _ := x.one(t, "AWS::KMS::Key", "")
	namespaces := map[any]int{}
	for _, id := range x.all(t, functionType, 6) {
		r := x.Resources[id]
		if subnets, _ := at(r.Properties, "VpcConfig.SubnetIds").([]any); len(subnets) != 2 {
			t.Errorf("%s is in the subnets %v", id, subnets)
		}
		r.expect(t, id, map[string]any{"KmsKeyArn": arnOf(key)})
		namespaces[at(r.Properties, "Environment.Variables.ONCE_METRICS_NAMESPACE")]++
	}
	if namespaces["Shop/Orders"] != 3 || namespaces["Shop/Billing"] != 3 {
		t.Errorf("namespaces of metrics %v", namespaces)
	}
	for _, id := range x.all(t, tableType, 4) {
		x.Resources[id].expect(t, id, map[string]any{"SSESpecification.KMSMasterKeyId": arnOf(key)})
	}
	for _, id := range x.all(t, queueType, 16) {
		x.Resources[id].expect(t, id, map[string]any{"KmsMasterKeyId": arnOf(key)})
	}

	api, _ := x.one(t, "AWS::ApiGatewayV2::Api", "Orders")
	domain, _ := x.one(t, "AWS::ApiGatewayV2::DomainName", "")
	id, mapping := x.one(t, "AWS::ApiGatewayV2::ApiMapping", "")
	mapping.expect(t, id, map[string]any{"ApiId": ref(api), "DomainName": ref(domain)})

	rest, _ := x.one(t, "AWS::ApiGateway::RestApi", "Billing")
	x.all(t, "AWS::ApiGateway::Account", 1)
	_, association := x.one(t, "AWS::WAFv2::WebACLAssociation", "")
	if on := asJSON(at(association.Properties, "ResourceArn")); !strings.Contains(on, `{"Ref":"`+rest+`"}`) || !strings.Contains(on, "/stages/") {
		t.Errorf("the web ACL is associated with %s", on)
	}
	for _, name := range []string{"OrdersApiUrl", "BillingApiUrl", "OrdersGroupsTable", "BillingGroupsTable"} {
		if x.Outputs[name].Value == nil {
			t.Errorf("no output %s", name)
		}
	}
	topic, _ := x.one(t, "AWS::SNS::Topic", "")
	id, alarm := x.one(t, alarmType, "Refused")
	alarm.expect(t, id, map[string]any{"AlarmActions": []any{ref(topic)}, "Namespace": "Shop/Orders", "MetricName": "DeadLettered"})
}
