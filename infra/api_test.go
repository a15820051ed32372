package infra

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestAnHTTPAPIHasOneAuthorizedRouteForEveryPath(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"http iam": {"AuthorizationType": "AWS_IAM", "RouteKey": "ANY /{proxy+}"},
		"http jwt": {"AuthorizationType": "JWT", "RouteKey": "ANY /{proxy+}"},
	} {
		x := synth(t, apis[name]...)
		id, route := x.one(t, "AWS::ApiGatewayV2::Route", "")
		route.expect(t, id, want)
	}
	id, authorizer := synth(t, apis["http jwt"]...).one(t, "AWS::ApiGatewayV2::Authorizer", "")
	authorizer.expect(t, id, map[string]any{
		"AuthorizerType": "JWT", "JwtConfiguration.Issuer": "https://issuer.example", "JwtConfiguration.Audience": []string{"once", "other"},
	})
}

func TestARESTAPIAuthorizesEveryMethod(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"rest iam": {"AuthorizationType": "AWS_IAM", "ApiKeyRequired": nil},
		"rest jwt": {"AuthorizationType": "COGNITO_USER_POOLS"},
		"rest key": {"AuthorizationType": "NONE", "ApiKeyRequired": true},
	} {
		x := synth(t, apis[name]...)
		for _, id := range x.all(t, "AWS::ApiGateway::Method", 2) {
			x.Resources[id].expect(t, id, want)
			x.Resources[id].expect(t, id, map[string]any{"HttpMethod": "ANY"})
		}
	}
}

func TestAPIKeysBelongToAPlanOfTheStage(t *testing.T) {
	x := synth(t, apis["rest key"]...)
	x.all(t, "AWS::ApiGateway::ApiKey", 2)
	x.all(t, "AWS::ApiGateway::UsagePlanKey", 2)
	stage, _ := x.one(t, "AWS::ApiGateway::Stage", "")
	id, plan := x.one(t, "AWS::ApiGateway::UsagePlan", "")
	plan.expect(t, id, map[string]any{"ApiStages.0.Stage": ref(stage), "Throttle.RateLimit": 1000})
	if x.Outputs["ApiKeyIds"].Value == nil {
		t.Error("no output names the keys")
	}
}

func TestAPrivateAPIIsReachedThroughItsEndpointsOnly(t *testing.T) {
	id, api := synth(t, apis["private"]...).one(t, "AWS::ApiGateway::RestApi", "")
	api.expect(t, id, map[string]any{"EndpointConfiguration.Types": []string{"PRIVATE"}, "EndpointConfiguration.VpcEndpointIds": []string{"vpce-1", "vpce-2"}})
	if policy := asJSON(at(api.Properties, "Policy")); !strings.Contains(policy, `"Deny"`) || !strings.Contains(policy, "aws:SourceVpce") {
		t.Errorf("policy %s", policy)
	}
}

func TestAPIsAreThrottled(t *testing.T) {
	x := synth(t, "throttleRate=7", "throttleBurst=5")
	id, stage := x.one(t, "AWS::ApiGatewayV2::Stage", "")
	stage.expect(t, id, map[string]any{"DefaultRouteSettings.ThrottlingRateLimit": 7, "DefaultRouteSettings.ThrottlingBurstLimit": 5})

	x = synth(t, "api=rest", "throttleRate=7", "throttleBurst=5")
	id, stage = x.one(t, "AWS::ApiGateway::Stage", "")
	stage.expect(t, id, map[string]any{"MethodSettings.0.ThrottlingRateLimit": 7, "MethodSettings.0.ThrottlingBurstLimit": 5, "MethodSettings.0.HttpMethod": "*"})
}

func TestAccessLogsHaveTheCallerAndNoHeaderOrBody(t *testing.T) {
	principals := map[string]string{
		"http iam": "userArn", "http jwt": "claims.sub", "rest iam": "userArn", "rest jwt": "claims.sub", "rest key": "apiKeyId", "private": "userArn",
	}
	for name, principal := range principals {
		x := synth(t, apis[name]...)
		kind, field := "AWS::ApiGatewayV2::Stage", "AccessLogSettings"
		if name != "http iam" && name != "http jwt" {
			kind, field = "AWS::ApiGateway::Stage", "AccessLogSetting"
		}
		_, stage := x.one(t, kind, "")
		if at(stage.Properties, field+".DestinationArn") == nil {
			t.Errorf("%s: no access log", name)
		}
		format, _ := at(stage.Properties, field+".Format").(string)
		if !strings.Contains(format, "$context.requestId") || !strings.Contains(format, principal) {
			t.Errorf("%s: access log %s", name, format)
		}
		line := regexp.MustCompile(`\$[a-zA-Z.]+`).ReplaceAllString(format, "-")
		if !json.Valid([]byte(line)) {
			t.Errorf("%s: a line of the access log is not JSON: %s", name, line)
		}
		for _, secret := range []string{"path\"", "$context.path", "header", "body"} {
			if strings.Contains(format, secret) {
				t.Errorf("%s: the access log has %s: %s", name, secret, format)
			}
		}
	}
}

func TestARESTAPITakesBodiesOfBytes(t *testing.T) {
	id, api := synth(t, "api=rest").one(t, "AWS::ApiGateway::RestApi", "")
	api.expect(t, id, map[string]any{"BinaryMediaTypes": []string{"*/*", "application/cbor-seq"}})
}

func TestTheAccountsRoleForAccessLogsIsASetting(t *testing.T) {
	synth(t, "api=rest").all(t, "AWS::ApiGateway::Account", 1)
	synth(t, "api=rest", "apiLogsRole=false").all(t, "AWS::ApiGateway::Account", 0)
}
