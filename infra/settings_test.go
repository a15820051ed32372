package infra

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

func TestWithoutContextTheSettingsAreTheDocumentedDefaults(t *testing.T) {
	s, err := parseSettings(map[string]any{"aws:cdk:bundling-stacks": []any{"**"}, "@aws-cdk/core:x": true, "cli-telemetry": false})
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.MetricsNamespace = "Once"
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("settings (-want +got)\n%s", diff)
	}
}

func TestSettingsComeFromTheCommandLineAndFromFiles(t *testing.T) {
	for _, values := range []map[string]any{
		{"timeout": "60", "deletionProtection": "false", "apiKeys": "a, b", "api": "rest", "auth": "key", "tags": "a=b,c="},
		{"timeout": 60.0, "deletionProtection": false, "apiKeys": "a,b", "api": "rest", "auth": "key", "tags": "a=b,c="},
	} {
		s, err := parseSettings(values)
		if err != nil {
			t.Fatal(err)
		}
		want := defaults()
		want.MetricsNamespace = "Once"
		want.Timeout, want.DeletionProtection, want.Tags = time.Minute, false, map[string]string{"a": "b", "c": ""}
		want.API.Kind, want.API.Auth, want.API.Keys = REST, Key, []string{"a", "b"}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("settings (-want +got)\n%s", diff)
		}
	}
}

func TestSettingsErrorNamesEveryInvalidValue(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"context deletionprotection: no such setting":  {"deletionprotection": "false"},
		"context emulator: \"yes\" is neither":         {"emulator": "yes"},
		"context timeout: \"1000\" is not a whole":     {"timeout": "1000"},
		"context memory: \"lots\" is not a whole":      {"memory": "lots"},
		"context api: \"graphql\" is not one of":       {"api": "graphql"},
		"context tags: \"team\" is not NAME=VALUE":     {"tags": "team"},
		"context apiKeys: has an empty item":           {"apiKeys": "a,,b"},
		"context config: is empty":                     {"config": ""},
		"context auth: HTTP APIs have no keys":         {"auth": "key", "apiKeys": "a"},
		"context vpcEndpoints: HTTP APIs can't":        {"vpcEndpoints": "vpce-1"},
		"context auth: jwt needs jwtIssuer":            {"auth": "jwt"},
		"context auth: jwt of a REST API needs":        {"auth": "jwt", "api": "rest"},
		"context auth: key needs apiKeys":              {"auth": "key", "api": "rest"},
		"context apiKeys: set auth=key":                {"apiKeys": "a", "api": "rest"},
		"context groupsTable and tokensTable: give":    {"groupsTable": "x"},
		"context reservedConcurrency: 10 is less":      {"reservedConcurrency": "10"},
		"context logRetentionDays: CloudWatch does":    {"logRetentionDays": "31"},
		"context stack: \"my stack\" is not a stack's": {"stack": "my stack"},
		"context alarmTopic: \"pager\" is not the":     {"alarmTopic": "pager"},
		"context kmsKeys: \"b\" is not the ARN of":     {"kmsKeys": "arn:aws:kms:eu-central-1:123456789012:key/a,b"},
		"context vpcEndpoints: \"vpc-1\" is not":       {"vpcEndpoints": "vpc-1", "api": "rest"},
		"context vpc, subnets: give both or none":      {"vpc": "vpc-1"},
		"securityGroups need them":                     {"securityGroups": "sg-1"},
		"context subnets: \"s-1\" is not the id":       {"vpc": "vpc-1", "subnets": "s-1"},
		"context encryptionKey: \"k\" is not the ARN":  {"encryptionKey": "k"},
		"context permissionsBoundary: \"b\" is not":    {"permissionsBoundary": "b"},
		"context layers: \"l\" is not the ARN":         {"layers": "l"},
		"context corsOrigins: \"shop\" is not":         {"corsOrigins": "shop"},
		"context minPollers, maxPollers: Lambda has":   {"minPollers": "2", "maxConcurrency": "50"},
		"context batchSize: 100 is more than 10":       {"batchSize": "100"},
		"context userPool: \"pool\" is not the ARN":    {"userPool": "pool", "api": "rest", "auth": "jwt"},
		"userPool: set auth=jwt":                       {"jwtIssuer": "https://issuer.example"},
		"reservedConcurrency: 50 is less than 101":     {"reservedConcurrency": "50", "maxConcurrency": "50"},
		"reservedConcurrency: 100 is less than 101":    {"reservedConcurrency": "100"},
	} {
		if _, err := parseSettings(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", values, err, want)
		}
	}
	if _, err := parseSettings(map[string]any{"reservedConcurrency": "101", "maxConcurrency": "50"}); err != nil {
		t.Error(err)
	}
	_, err := parseSettings(map[string]any{"memory": "1", "timeout": "1", "colour": "red"})
	for _, name := range []string{"memory", "timeout", "colour"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

func TestPropsAreCheckedLikeTheContext(t *testing.T) {
	for want, props := range map[string]PipelineProps{
		"reservedConcurrency: 50 is less than 101": {ReservedConcurrency: 50},
		"reservedConcurrency: 20 is less than 21":  {ReservedConcurrency: 20, MaxConcurrency: 10},
		"reservedConcurrency: -1 is less than 101": {ReservedConcurrency: -1},
		"auth: HTTP APIs have no keys":             {API: APISettings{Auth: Key, Keys: []string{"a"}}},
	} {
		props.Config = testConfig
		props.Environment = map[string]string{"SHOP_SECRET": "whsec_MTIz"}
		_, err := NewPipeline(NewApp(), "P", &props)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, enough := range []int{0, 101} { // the next error is about missing bootstraps
		props := PipelineProps{Config: testConfig, Environment: map[string]string{"SHOP_SECRET": "whsec_MTIz"}, ReservedConcurrency: enough, Assets: t.TempDir()}
		_, err := NewPipeline(awscdk.NewStack(NewApp(), jsii.String("S"), nil), "P", &props)
		if err == nil || !strings.Contains(err.Error(), "bootstrap") {
			t.Errorf("%d reserved: %v", enough, err)
		}
	}
}

func TestAnEmulatorHasItsOwnDefaults(t *testing.T) {
	s, err := parseSettings(map[string]any{"emulator": true})
	if err != nil {
		t.Fatal(err)
	}
	if s.DeletionProtection || s.API.LogsRole {
		t.Errorf("settings %+v", s)
	}
	s, err = parseSettings(map[string]any{"emulator": true, "deletionProtection": "true", "architecture": "arm64"})
	if err != nil || !s.DeletionProtection || s.Architecture != ARM64 {
		t.Errorf("settings %+v, %v", s, err)
	}
}

func TestThePageListsEverySettingAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Settings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	var s Settings
	if diff := cmp.Diff(slices.Sorted(maps.Keys(s.fields())), listed); diff != "" {
		t.Errorf("settings (-code +page)\n%s", diff)
	}
}
