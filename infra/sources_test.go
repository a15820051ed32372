package infra

import (
	"path/filepath"
	"strings"
	"testing"
)

const sourcesConfig = `
streams:
  orders:  {log: {}}
  uploads: {log: {}}
ingress:
  orders:   {from: eventbridge, fifo: true}
  uploads:  {from: s3}
  photos:   {from: s3, stream: uploads, arns: ["arn:aws:s3:::photos"]}
  news:     {from: sns, stream: orders, id: $.id}
  nightly:  {from: scheduler, stream: orders, id: $.time, fifo: true}
  partner-1: {from: 123456789012, stream: orders, fifo: true, id: $.id}
  abroad:   {from: sns, stream: orders, arns: ["arn:aws:sns:eu-west-1:210987654321:news"], id: $.id}
`

func sourced(t *testing.T) *template {
	t.Helper()
	path := filepath.Join(t.TempDir(), "once.yaml")
	write(t, path, sourcesConfig)
	return synth(t, "config="+path)
}

// arn returns an ARN in the partition, the region and the account of the stack.
func arn(service, resource string) any {
	return map[string]any{"Fn::Join": []any{"", []any{
		"arn:", ref("AWS::Partition"), ":" + service + ":", ref("AWS::Region"), ":", ref("AWS::AccountId"), ":" + resource,
	}}}
}

func TestTheQueueOfASourceTakesMessagesOfThatSourceAlone(t *testing.T) {
	x := sourced(t)
	policies := map[string][]any{}
	for id, r := range x.Resources {
		if r.Type != "AWS::SQS::QueuePolicy" {
			continue
		}
		statements, _ := at(r.Properties, "PolicyDocument.Statement").([]any)
		policies[id] = statements
	}
	service := func(name string) any { return map[string]any{"Service": name + ".amazonaws.com"} }
	arnLike := func(arns any) any { return map[string]any{"ArnLike": map[string]any{"aws:SourceArn": []any{arns}}} }
	owned := func(arns any) any {
		return map[string]any{"ArnLike": map[string]any{"aws:SourceArn": []any{arns}}, "StringEquals": map[string]any{"aws:SourceAccount": ref("AWS::AccountId")}}
	}
	anyBucket := map[string]any{"Fn::Join": []any{"", []any{"arn:", ref("AWS::Partition"), ":s3:::*"}}}
	root := map[string]any{"AWS": map[string]any{"Fn::Join": []any{"", []any{"arn:", ref("AWS::Partition"), ":iam::123456789012:root"}}}}
	for name, want := range map[string]struct{ principal, condition any }{
		"orders":   {service("events"), arnLike(arn("events", "rule/*"))},
		"uploads":  {service("s3"), owned(anyBucket)},
		"photos":   {service("s3"), owned("arn:aws:s3:::photos")},
		"news":     {service("sns"), arnLike(arn("sns", "*"))},
		"abroad":   {service("sns"), arnLike("arn:aws:sns:eu-west-1:210987654321:news")},
		"partner1": {root, nil},
		"nightly":  {},
	} {
		id, _ := x.queue(t, "Sources"+name)
		var allowed []any
		denied := false
		for policy, statements := range policies {
			if !strings.HasPrefix(policy, "PipelineSources"+name+"Policy") {
				continue
			}
			for _, s := range statements {
				if at(s, "Effect") == "Allow" {
					allowed = append(allowed, s)
				}
				denied = denied || at(s, "Sid") == "DenyPlaintext"
			}
		}
		if !denied {
			t.Errorf("%s: plaintext is not denied", name)
		}
		if want.principal == nil {
			if len(allowed) > 0 {
				t.Errorf("%s: allowed %s", name, asJSON(allowed))
			}
			continue
		}
		one := map[string]any{"Action": "sqs:SendMessage", "Effect": "Allow", "Principal": want.principal, "Resource": arnOf(id), "Sid": "AllowSource"}
		if want.condition != nil {
			one["Condition"] = want.condition
		}
		if got := asJSON(allowed); got != asJSON([]any{one}) {
			t.Errorf("%s: allowed\n%s\nwant\n%s", name, got, asJSON([]any{one}))
		}
	}
}

func TestTheQueueOfASourceFeedsTheProcessFunctionUnderTheNameOfTheSource(t *testing.T) {
	x := sourced(t)
	processID, process := x.one(t, functionType, "Process")
	list := asJSON(at(process.Properties, "Environment.Variables.ONCE_SOURCE_QUEUES"))
	mappings := x.all(t, mappingType, len(queues)+7)
	for name, fifo := range map[string]bool{"orders": true, "uploads": false, "photos": false, "news": false, "nightly": true, "partner1": true, "abroad": false} {
		id, q := x.queue(t, "Sources"+name)
		deadID, _ := x.queue(t, map[bool]string{true: "QueuesIngressFifoDead", false: "QueuesIngressDead"}[fifo])
		q.expect(t, id, map[string]any{
			"RedrivePolicy.deadLetterTargetArn": arnOf(deadID), "SqsManagedSseEnabled": true, "MessageRetentionPeriod": 14 * 24 * 60 * 60, "VisibilityTimeout": 180,
		})
		if fifo {
			// an account may send equal bodies under different ids
			q.expect(t, id, map[string]any{"FifoQueue": true, "ContentBasedDeduplication": map[bool]any{true: nil, false: true}[name == "partner1"]})
		}
		feeds := false
		for _, mapping := range mappings {
			r := x.Resources[mapping]
			if asJSON(at(r.Properties, "EventSourceArn")) == asJSON(arnOf(id)) {
				feeds = true
				r.expect(t, mapping, map[string]any{"FunctionName": ref(processID), "FunctionResponseTypes": []string{"ReportBatchItemFailures"}})
			}
		}
		if !feeds {
			t.Errorf("%s feeds nothing", id)
		}
		named := `["=",["` + strings.Replace(name, "partner1", "partner-1", 1) + `",{"Fn::GetAtt":["` + id + `","QueueName"]}`
		if !strings.Contains(list, named) {
			t.Errorf("%s is not in ONCE_SOURCE_QUEUES: %s", named, list)
		}
		output := map[string]string{"partner1": "Partner1"}[name]
		if output == "" {
			output = strings.ToUpper(name[:1]) + name[1:]
		}
		if got := asJSON(x.Outputs["Ingress"+output+"QueueUrl"].Value); got != asJSON(ref(id)) {
			t.Errorf("output of the URL of %s is %s", name, got)
		}
		if got := asJSON(x.Outputs["Ingress"+output+"QueueArn"].Value); got != asJSON(arnOf(id)) {
			t.Errorf("output of the ARN of %s is %s", name, got)
		}
	}
}

func TestAStackWithoutSourcesHasNoVariableForThem(t *testing.T) {
	_, process := synth(t).one(t, functionType, "Process")
	if v := at(process.Properties, "Environment.Variables.ONCE_SOURCE_QUEUES"); v != nil {
		t.Errorf("ONCE_SOURCE_QUEUES is %v", v)
	}
}
