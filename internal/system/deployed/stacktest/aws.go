// Package stacktest replaces the parts of AWS that describe a deployed stack: CloudFormation,
// Lambda's configuration, EventBridge's rules, CloudWatch's logs and metrics, STS. Tables and
// queues are real ones, at an endpoint in the environment.
package stacktest

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Function is a function of the stack. Functions are found by their names.
type Function struct {
	Timeout     int // seconds
	Environment map[string]string
	// Config is the text of once.yaml in its archive.
	Config string
	// Queues are the ARNs of the queues whose event source mappings invoke the function; Whole are
	// those of them whose mapping does not accept partial batch responses.
	Queues []string
	Whole  []string
	// LogGroup is the log group in the function's configuration.
	LogGroup string
	// Sweeps is true if a schedule sends tasks to the function.
	Sweeps bool
	// Invoke answers an invocation. If it is nil or returns an error, the invocation fails.
	Invoke func(payload []byte) any
}

// An AWS has one stack at most. Its fields may be changed between calls.
type AWS struct {
	mu sync.Mutex
	// Stack is the name of the stack, or empty if there is none.
	Stack     string
	Outputs   map[string]string
	Functions map[string]Function
	// ARN, UserID and Account are the caller's identity.
	ARN, UserID, Account string
	// Logs has the events of log groups, in the order of their times.
	Logs map[string][]LogEvent
	// Metrics are those of CloudWatch; without any, its calls are not permitted. MetricCalls counts
	// the calls.
	Metrics     map[Metric][]Value
	MetricCalls int
	// Denied are the operations that are not permitted.
	Denied []string
	url    string
}

// Start serves until the test ends, and sets the endpoints in the environment to its address.
func Start(t *testing.T) *AWS {
	t.Helper()
	a := &AWS{
		Stack: "Once", Outputs: map[string]string{}, Functions: map[string]Function{},
		ARN: "arn:aws:sts::000000000000:assumed-role/Operator/ann", UserID: "AROAOPERATOR:ann", Account: "000000000000",
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	for _, service := range []string{"CLOUDFORMATION", "LAMBDA", "STS", "EVENTBRIDGE", "CLOUDWATCH", "CLOUDWATCH_LOGS"} {
		t.Setenv("AWS_ENDPOINT_URL_"+service, server.URL)
	}
	credentials(t)
	return a
}

// credentials sets credentials in the environment, and hides those of the machine.
func credentials(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{ //nolint:gosec // nobody's credentials
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "",
		"AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CA_BUNDLE": "", "AWS_MAX_ATTEMPTS": "2",
	} {
		t.Setenv(name, value)
	}
}

// ServeHTTP answers CloudFormation, STS, EventBridge and Lambda. Each of them has the operation in
// another part of the request.
func (a *AWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if target := r.Header.Get("X-Amz-Target"); strings.HasPrefix(target, "Logs_") {
		a.filterLogs(w, r)
		return
	} else if target != "" {
		a.rules(w, r)
		return
	}
	if operation := r.FormValue("Action"); operation == "GetMetricData" {
		a.metrics(w, r)
		return
	} else if operation != "" {
		a.query(w, operation)
		return
	}
	a.lambda(w, r)
}

func (a *AWS) query(w http.ResponseWriter, operation string) {
	switch {
	case slices.Contains(a.Denied, operation):
		queryError(w, http.StatusForbidden, "AccessDenied", "not authorized to perform "+operation)
	case operation == "GetCallerIdentity":
		answerXML(w, operation, fmt.Sprintf("<Arn>%s</Arn><UserId>%s</UserId><Account>%s</Account>", escape(a.ARN), escape(a.UserID), escape(a.Account)))
	case a.Stack == "":
		queryError(w, http.StatusBadRequest, "ValidationError", "Stack with id Once does not exist")
	case operation == "DescribeStacks":
		var list strings.Builder
		for _, name := range slices.Sorted(maps.Keys(a.Outputs)) {
			fmt.Fprintf(&list, "<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>", escape(name), escape(a.Outputs[name]))
		}
		answerXML(w, operation, "<Stacks><member><StackName>"+escape(a.Stack)+"</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2026-01-01T00:00:00Z</CreationTime><Outputs>"+
			list.String()+"</Outputs></member></Stacks>")
	case operation == "ListStackResources":
		var list strings.Builder
		list.WriteString("<member><LogicalResourceId>Groups</LogicalResourceId><PhysicalResourceId>t</PhysicalResourceId><ResourceType>AWS::DynamoDB::Table</ResourceType></member>")
		for _, name := range slices.Sorted(maps.Keys(a.Functions)) {
			fmt.Fprintf(&list, "<member><LogicalResourceId>%[1]s</LogicalResourceId><PhysicalResourceId>%[1]s</PhysicalResourceId>"+
				"<ResourceType>AWS::Lambda::Function</ResourceType></member>", escape(name))
		}
		answerXML(w, operation, "<StackResourceSummaries>"+list.String()+"</StackResourceSummaries>")
	}
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // writing to a buffer can't fail
	return b.String()
}

func answerXML(w http.ResponseWriter, operation, result string) {
	w.Header().Set("Content-Type", "text/xml")
	_, _ = fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", operation, result) //nolint:gosec // escaped, and read by the SDK only
}

func queryError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", code, message) //nolint:gosec // as above
}

const functionsPath = "/2015-03-31/functions/"

func (a *AWS) lambda(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/archives/"):
		a.archive(w, strings.TrimPrefix(r.URL.Path, "/archives/"))
	case strings.HasPrefix(r.URL.Path, "/2015-03-31/event-source-mappings"):
		a.mappings(w, r.FormValue("FunctionName"))
	case strings.HasPrefix(r.URL.Path, functionsPath):
		name, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, functionsPath), "/")
		a.function(w, r, name, what)
	default:
		http.NotFound(w, r)
	}
}

func (a *AWS) function(w http.ResponseWriter, r *http.Request, name, what string) {
	f, ok := a.Functions[name]
	switch {
	case what != "invocations" && slices.Contains(a.Denied, "GetFunctionConfiguration"):
		w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
		w.WriteHeader(http.StatusForbidden)
	case !ok:
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
	case what == "" && slices.Contains(a.Denied, "GetFunction"):
		w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
		w.WriteHeader(http.StatusForbidden)
	case what == "configuration":
		answerJSON(w, f.configuration(name))
	case what == "invocations":
		f.invoke(w, r)
	default:
		answerJSON(w, map[string]any{"Configuration": f.configuration(name), "Code": map[string]string{"Location": a.url + "/archives/" + name}})
	}
}

func (f Function) configuration(name string) map[string]any {
	return map[string]any{
		"FunctionName": name, "FunctionArn": arnOf(name), "Timeout": f.Timeout, "Environment": map[string]any{"Variables": f.Environment},
		"LoggingConfig": map[string]any{"LogGroup": f.LogGroup},
	}
}

func (f Function) invoke(w http.ResponseWriter, r *http.Request) {
	var payload bytes.Buffer
	_, _ = payload.ReadFrom(r.Body) // the function refuses a truncated payload
	var answer any = errors.New("out of order")
	if f.Invoke != nil {
		answer = f.Invoke(payload.Bytes())
	}
	if err, failed := answer.(error); failed {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer = map[string]string{"errorMessage": err.Error()}
	}
	answerJSON(w, answer)
}

func arnOf(function string) string {
	return "arn:aws:lambda:us-east-1:000000000000:function:" + function
}

func (a *AWS) mappings(w http.ResponseWriter, name string) {
	list := []map[string]any{}
	f := a.Functions[name]
	for _, arn := range append(slices.Clone(f.Queues), f.Whole...) {
		m := map[string]any{"UUID": arn, "EventSourceArn": arn, "State": "Enabled", "FunctionArn": arnOf(name)}
		if !slices.Contains(f.Whole, arn) {
			m["FunctionResponseTypes"] = []string{"ReportBatchItemFailures"}
		}
		list = append(list, m)
	}
	answerJSON(w, map[string]any{"EventSourceMappings": list})
}

func (a *AWS) archive(w http.ResponseWriter, name string) {
	z := zip.NewWriter(w)
	file, err := z.Create("once.yaml")
	if err == nil {
		_, err = file.Write([]byte(a.Functions[name].Config))
	}
	if err != nil || z.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}

// rules answers EventBridge: it lists the rules that invoke a function.
func (a *AWS) rules(w http.ResponseWriter, r *http.Request) {
	var in struct{ TargetArn string }
	_ = json.NewDecoder(r.Body).Decode(&in) // invalid JSON names no target
	names := []string{}
	for name, f := range a.Functions {
		if f.Sweeps && arnOf(name) == in.TargetArn {
			names = append(names, "Sweep")
		}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(map[string]any{"RuleNames": names})
}

func answerJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has disconnected
}
