package infra

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exceptions are the wildcards that AWS requires, as docs/security.md lists them: the action, and
// the end of the resource.
var exceptions = map[string]string{
	// an object's key is not known in advance, so that only its bucket can be named
	"s3:GetObject":    "/*",
	"s3:PutObject":    "/*",
	"s3:DeleteObject": "/*",
	// the policy of a private API is part of the API and can't name it
	"execute-api:Invoke": "execute-api:/*",
	// neither network interfaces that do not exist yet nor traces have a name
	"ec2:CreateNetworkInterface":     "*",
	"ec2:DescribeNetworkInterfaces":  "*",
	"ec2:DescribeSubnets":            "*",
	"ec2:DeleteNetworkInterface":     "*",
	"ec2:AssignPrivateIpAddresses":   "*",
	"ec2:UnassignPrivateIpAddresses": "*",
	"xray:PutTraceSegments":          "*",
	"xray:PutTelemetryRecords":       "*",
}

// A statement of a policy, anywhere in a template.
type statement struct {
	where, effect      string
	actions, resources []string
}

// statements returns the statements of all policy documents in a template.
func statements(x *template) []statement {
	var out []statement
	for id, r := range x.Resources {
		walk(r.Properties, func(m map[string]any) {
			if _, ok := m["Effect"]; !ok {
				return
			}
			out = append(out, statement{where: id, effect: asJSON(m["Effect"]), actions: texts(m["Action"], m["NotAction"]), resources: texts(m["Resource"], m["NotResource"])})
		})
	}
	return out
}

func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}

// texts returns the items of each value, or the value itself if it is no list. Strings are
// unchanged, functions of CloudFormation are JSON.
func texts(values ...any) []string {
	var out []string
	for _, value := range values {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, item := range list {
			switch s := item.(type) {
			case nil:
			case string:
				out = append(out, s)
			default:
				out = append(out, asJSON(s))
			}
		}
	}
	return out
}

// wildcards returns the wildcards in a template that no exception covers. In a statement that
// denies, a wildcard is the stricter policy.
func wildcards(x *template) []string {
	var out []string
	for _, s := range statements(x) {
		if s.effect == `"Deny"` {
			continue
		}
		for _, action := range s.actions {
			if strings.Contains(action, "*") {
				out = append(out, s.where+": action "+action)
			}
			for _, r := range s.resources {
				if strings.Contains(r, "*") && !excepted(action, r) {
					out = append(out, s.where+": "+action+" on "+r)
				}
			}
		}
	}
	return out
}

func excepted(action, resource string) bool {
	suffix, ok := exceptions[action]
	return ok && strings.Count(resource, "*") == 1 && strings.HasSuffix(strings.TrimRight(resource, `"]}`), suffix)
}

// apis are the contexts of every kind of API.
var apis = map[string][]string{
	"http iam": nil,
	"http jwt": {"auth=jwt", "jwtIssuer=https://issuer.example", "jwtAudience=once,other"},
	"rest iam": {"api=rest"},
	"rest jwt": {"api=rest", "auth=jwt", "userPool=arn:aws:cognito-idp:eu-central-1:123456789012:userpool/eu-central-1_abc"},
	"rest key": {"api=rest", "auth=key", "apiKeys=shop,billing"},
	"private":  {"api=rest", "vpcEndpoints=vpce-1,vpce-2"},
	"emulator": {"emulator=true", "api=rest"},
}

func TestNoPolicyHasAWildcardThatIsNotDocumented(t *testing.T) {
	for name, context := range apis {
		x := synth(t, context...)
		if len(statements(x)) < 20 {
			t.Errorf("%s: only %d statements found", name, len(statements(x)))
		}
		for _, w := range wildcards(x) {
			t.Errorf("%s: %s", name, w)
		}
	}
}

func TestWildcardsFindsEachKindOfWildcard(t *testing.T) {
	policy := func(action, on any) *template {
		return &template{Resources: map[string]resource{"p": {Properties: map[string]any{
			"PolicyDocument": map[string]any{"Statement": []any{map[string]any{"Effect": "Allow", "Action": action, "Resource": on}}},
		}}}}
	}
	join := func(parts ...any) any { return map[string]any{"Fn::Join": []any{"", parts}} }
	for _, bad := range []*template{
		policy("s3:*", "arn:aws:s3:::b"), policy("*", "arn"), policy([]any{"sqs:SendMessage", "sqs:Get*"}, "arn"), policy("sqs:SendMessage", "*"),
		policy("dynamodb:GetItem", join(arnOf("t"), "/index/*")), policy("s3:GetObject", "*"), policy("s3:GetObject", []any{"arn", join("arn:aws:s3:::*", "/*")}),
	} {
		if len(wildcards(bad)) == 0 {
			t.Errorf("nothing found in %s", asJSON(bad))
		}
	}
	if got := wildcards(policy("s3:GetObject", join(arnOf("b"), "/*"))); got != nil {
		t.Errorf("an exception was found: %v", got)
	}
	denied := policy("s3:*", "*")
	walk(denied.Resources["p"].Properties, func(m map[string]any) {
		if m["Effect"] != nil {
			m["Effect"] = "Deny"
		}
	})
	if got := wildcards(denied); got != nil {
		t.Errorf("found in a statement that denies: %v", got)
	}
}

func TestRolesHaveNoPoliciesButGrants(t *testing.T) {
	for name, context := range apis {
		for id, r := range synth(t, context...).Resources {
			if r.Type != "AWS::IAM::Role" {
				continue
			}
			managed := asJSON(r.Properties["ManagedPolicyArns"])
			gateway := strings.Contains(id, "CloudWatchRole") && strings.Contains(managed, "AmazonAPIGatewayPushToCloudWatchLogs")
			if r.Properties["Policies"] != nil || managed != "null" && !gateway {
				t.Errorf("%s: %s has %s", name, id, managed)
			}
		}
	}
}

func TestOnlyTheSweepReadsTheIndexAndTheWholeTable(t *testing.T) {
	x := synth(t)
	groups, _ := x.one(t, tableType, "Groups")
	scans, indexes := 0, 0
	for _, s := range statements(x) {
		for _, r := range s.resources {
			index := strings.Contains(r, "/index/")
			if index && !strings.Contains(r, `"waiting"`) && !strings.Contains(r, `/index/waiting"`) {
				t.Errorf("%s may read %s", s.where, r)
			}
			for _, action := range s.actions {
				switch {
				case action != "dynamodb:Scan" && !index:
				case !strings.Contains(s.where, "ProcessRole") || !strings.Contains(r, groups):
					t.Errorf("%s: %s on %s", s.where, action, r)
				case index:
					indexes++
				default:
					scans++
				}
			}
		}
	}
	if scans != 1 || indexes != 1 {
		t.Errorf("%d scans, %d queries of an index", scans, indexes)
	}
}

// TestAFunctionTakesItsOwnDeadLettersOnly compares the permissions on dead-letter queues. A redrive
// also needs the permission to send, which every function has anyway.
func TestAFunctionTakesItsOwnDeadLettersOnly(t *testing.T) {
	for name, context := range apis {
		x := synth(t, context...)
		got := map[string][]string{}
		for _, queue := range []string{"IngressDead", "IngressFifoDead", "PublishDead", "PublishFifoDead"} {
			id, _ := x.queue(t, "Queues"+queue)
			for _, s := range statements(x) {
				if s.effect == `"Deny"` || !slices.Contains(s.resources, asJSON(arnOf(id))) {
					continue
				}
				role := s.where[strings.Index(s.where, "Pipeline")+len("Pipeline") : strings.Index(s.where, "Role")]
				for _, action := range s.actions {
					got[queue] = append(got[queue], role+" "+action)
				}
			}
			slices.Sort(got[queue])
		}
		take := func(role string) []string {
			return []string{role + " sqs:ChangeMessageVisibility", role + " sqs:DeleteMessage", role + " sqs:ReceiveMessage"}
		}
		send := []string{"Ingest sqs:SendMessage", "Process sqs:SendMessage", "Publish sqs:SendMessage"}
		want := map[string][]string{
			"IngressDead": append(take("Process"), send...), "IngressFifoDead": take("Process"),
			"PublishDead": append(take("Publish"), send...), "PublishFifoDead": take("Publish"),
		}
		for _, list := range want {
			slices.Sort(list)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: permissions (-want +got)\n%s", name, diff)
		}
	}
}

func TestTheFunctionsMaySendToTheConfiguredDestinationsAndNoOther(t *testing.T) {
	x := synth(t)
	_, policy := x.one(t, "AWS::IAM::Policy", "ProcessRole")
	got := map[string]int{}
	for _, s := range statements(&template{Resources: map[string]resource{"p": policy}}) {
		for _, r := range s.resources {
			for _, place := range []string{":billing.fifo", ":sqs:eu-central-1:123456789012:abroad", ":news.fifo", ":event-bus/default"} {
				if strings.Contains(r, place) {
					for _, action := range s.actions {
						got[action+" "+place]++
					}
				}
			}
		}
	}
	want := map[string]int{
		"sqs:SendMessage :billing.fifo": 1, "sqs:GetQueueUrl :billing.fifo": 1, "sqs:SendMessage :sqs:eu-central-1:123456789012:abroad": 1,
		"sqs:GetQueueUrl :sqs:eu-central-1:123456789012:abroad": 1, "sns:Publish :news.fifo": 1, "events:PutEvents :event-bus/default": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("permissions (-want +got)\n%s", diff)
	}
}

func TestRequestsWithoutTLSAreRefused(t *testing.T) {
	x := synth(t)
	denied := map[string]int{}
	for _, s := range statements(x) {
		if s.effect == `"Deny"` {
			denied[strings.Join(s.actions, " ")]++
		}
	}
	if want := map[string]int{"sqs:*": len(x.all(t, queueType, 8)), "s3:*": 1}; !cmp.Equal(want, denied) {
		t.Errorf("resources that refuse plain requests, by action: %v, want %v", denied, want)
	}
}
