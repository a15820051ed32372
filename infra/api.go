package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscognito"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// An API is the API of a pipeline: all its paths go to the ingest function, which defines the
// routes. It is an HTTP API or a REST API; the fields of the other kind are nil. Map a domain to
// the API and its stage; associate a web ACL with the RESTStage, because HTTP APIs have none.
type API struct {
	HTTP      awsapigatewayv2.HttpApi
	HTTPStage awsapigatewayv2.HttpStage
	REST      awsapigateway.RestApi
	RESTStage awsapigateway.Stage
	// Logs are the access logs.
	Logs awslogs.LogGroup
	// URL is the address, including the stage if there is one.
	URL *string
	// KeyIDs are the ids of the API keys, in the order of their names. The keys themselves can be
	// read from AWS with the permission to do so.
	KeyIDs []*string

	metrics apiMetrics
}

// apiMetrics are the metrics that API Gateway measures, for both kinds of API.
type apiMetrics interface {
	MetricCount(*awscloudwatch.MetricOptions) awscloudwatch.Metric
	MetricClientError(*awscloudwatch.MetricOptions) awscloudwatch.Metric
	MetricServerError(*awscloudwatch.MetricOptions) awscloudwatch.Metric
	MetricLatency(*awscloudwatch.MetricOptions) awscloudwatch.Metric
}

func newAPI(scope constructs.Construct, props *PipelineProps, to awslambda.Function, logs awslogs.LogGroup) *API {
	// API Gateway's lists show the name, and allow several APIs of one name.
	name := jsii.String(*props.stackName(scope) + "-" + *scope.Node().Id())
	if props.API.Kind == REST {
		return newREST(scope, name, props.API, props.Tracing, to, logs)
	}
	return newHTTP(scope, name, props.API, to, logs)
}

func newHTTP(scope constructs.Construct, name *string, settings APISettings, to awslambda.Function, logs awslogs.LogGroup) *API {
	api := awsapigatewayv2.NewHttpApi(scope, jsii.String("HttpApi"), &awsapigatewayv2.HttpApiProps{
		ApiName: name, CreateDefaultStage: jsii.Bool(false), CorsPreflight: preflight(settings),
	})
	ingest := awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Ingest"), to, nil)
	api.AddRoutes(&awsapigatewayv2.AddRoutesOptions{Path: jsii.String("/{proxy+}"), Authorizer: authorizer(settings), Integration: ingest})
	if len(settings.CORSOrigins) > 0 {
		// Browsers send no credentials with a preflight request, which API Gateway answers itself.
		api.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
			Path: jsii.String("/{proxy+}"), Methods: &[]awsapigatewayv2.HttpMethod{awsapigatewayv2.HttpMethod_OPTIONS},
			Authorizer: awsapigatewayv2.NewHttpNoneAuthorizer(), Integration: ingest,
		})
	}
	stage := awsapigatewayv2.NewHttpStage(scope, jsii.String("HttpStage"), &awsapigatewayv2.HttpStageProps{
		HttpApi: api, StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{RateLimit: jsii.Number(float64(settings.Rate)), BurstLimit: jsii.Number(float64(settings.Burst))},
	})
	stage.Node().DefaultChild().(awsapigatewayv2.CfnStage).SetAccessLogSettings(&awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		DestinationArn: logs.LogGroupArn(), Format: jsii.String(accessFormat(settings)),
	})
	return &API{HTTP: api, HTTPStage: stage, Logs: logs, URL: stage.Url(), metrics: api}
}

// preflight returns what pages of the origins may send and read, or nil without origins. Senders
// choose the names of headers (Once-Header-NAME), so all are allowed; a wildcard leaves out
// Authorization.
func preflight(settings APISettings) *awsapigatewayv2.CorsPreflightOptions {
	if len(settings.CORSOrigins) == 0 {
		return nil
	}
	return &awsapigatewayv2.CorsPreflightOptions{
		AllowOrigins: jsii.Strings(settings.CORSOrigins...), AllowHeaders: jsii.Strings("*", "authorization"), ExposeHeaders: jsii.Strings("*"),
		AllowMethods: &[]awsapigatewayv2.CorsHttpMethod{
			awsapigatewayv2.CorsHttpMethod_GET, awsapigatewayv2.CorsHttpMethod_HEAD, awsapigatewayv2.CorsHttpMethod_POST,
			awsapigatewayv2.CorsHttpMethod_PUT, awsapigatewayv2.CorsHttpMethod_DELETE,
		},
		MaxAge: awscdk.Duration_Hours(jsii.Number(1)),
	}
}

func authorizer(settings APISettings) awsapigatewayv2.IHttpRouteAuthorizer {
	switch settings.Auth {
	case JWT:
		return awsapigatewayv2authorizers.NewHttpJwtAuthorizer(jsii.String("Jwt"), jsii.String(settings.JWTIssuer), &awsapigatewayv2authorizers.HttpJwtAuthorizerProps{
			JwtAudience: jsii.Strings(settings.JWTAudience...),
		})
	case None:
		return awsapigatewayv2.NewHttpNoneAuthorizer()
	default:
		return awsapigatewayv2authorizers.NewHttpIamAuthorizer()
	}
}

// accessFormat returns the format of a line of the access log: caller, route and result, without
// headers and body. The path contains ids, so it is left out.
func accessFormat(settings APISettings) string {
	path, principal := "$context.routeKey", ""
	if settings.Kind == REST {
		path = "$context.resourcePath"
	}
	switch settings.Auth {
	case IAM:
		principal = "$context.identity.userArn"
	case JWT:
		principal = "$context.authorizer.claims.sub"
	case Key:
		principal = "$context.identity.apiKeyId"
	case None:
	}
	return `{"request_id":"$context.requestId","time":"$context.requestTimeEpoch","ip":"$context.identity.sourceIp","principal":"` + principal + `",` +
		`"method":"$context.httpMethod","route":"` + path + `","status":"$context.status","bytes":"$context.responseLength","error":"$context.error.message"}`
}

func newREST(scope constructs.Construct, name *string, settings APISettings, tracing bool, to awslambda.Function, logs awslogs.LogGroup) *API {
	endpoints := vpcEndpoints(scope, settings.VPCEndpoints)
	api := awsapigateway.NewLambdaRestApi(scope, jsii.String("RestApi"), &awsapigateway.LambdaRestApiProps{
		Handler: to, Proxy: jsii.Bool(true), RestApiName: name, CloudWatchRole: jsii.Bool(settings.LogsRole),
		// Bodies are passed on unchanged. LocalStack does not take */* to include the answers to
		// batches.
		BinaryMediaTypes:      jsii.Strings("*/*", "application/cbor-seq"),
		EndpointConfiguration: endpointConfiguration(endpoints), DefaultMethodOptions: methodOptions(scope, settings),
		IntegrationOptions: &awsapigateway.LambdaIntegrationOptions{AllowTestInvoke: jsii.Bool(false)},
		DeployOptions: &awsapigateway.StageOptions{
			StageName: jsii.String("prod"), TracingEnabled: jsii.Bool(tracing),
			ThrottlingRateLimit: jsii.Number(float64(settings.Rate)), ThrottlingBurstLimit: jsii.Number(float64(settings.Burst)),
			AccessLogDestination: awsapigateway.NewLogGroupLogDestination(logs), AccessLogFormat: awsapigateway.AccessLogFormat_Custom(jsii.String(accessFormat(settings))),
		},
	})
	if len(endpoints) > 0 {
		api.GrantInvokeFromVpcEndpointsOnly(&endpoints)
	}
	return &API{REST: api, RESTStage: api.DeploymentStage(), Logs: logs, URL: api.Url(), KeyIDs: newKeys(scope, settings, api), metrics: api}
}

func vpcEndpoints(scope constructs.Construct, ids []string) []awsec2.IVpcEndpoint {
	var out []awsec2.IVpcEndpoint
	for _, id := range ids {
		out = append(out, awsec2.InterfaceVpcEndpoint_FromInterfaceVpcEndpointAttributes(scope, jsii.String(id), &awsec2.InterfaceVpcEndpointAttributes{
			VpcEndpointId: jsii.String(id), Port: jsii.Number(443),
		}))
	}
	return out
}

func endpointConfiguration(endpoints []awsec2.IVpcEndpoint) *awsapigateway.EndpointConfiguration {
	if len(endpoints) == 0 {
		return &awsapigateway.EndpointConfiguration{Types: &[]awsapigateway.EndpointType{awsapigateway.EndpointType_REGIONAL}}
	}
	return &awsapigateway.EndpointConfiguration{Types: &[]awsapigateway.EndpointType{awsapigateway.EndpointType_PRIVATE}, VpcEndpoints: &endpoints}
}

func methodOptions(scope constructs.Construct, settings APISettings) *awsapigateway.MethodOptions {
	switch settings.Auth {
	case JWT:
		return &awsapigateway.MethodOptions{
			AuthorizationType: awsapigateway.AuthorizationType_COGNITO,
			Authorizer: awsapigateway.NewCognitoUserPoolsAuthorizer(scope, jsii.String("Jwt"), &awsapigateway.CognitoUserPoolsAuthorizerProps{
				CognitoUserPools: &[]awscognito.IUserPool{awscognito.UserPool_FromUserPoolArn(scope, jsii.String("UserPool"), jsii.String(settings.UserPool))},
			}),
		}
	case Key:
		return &awsapigateway.MethodOptions{AuthorizationType: awsapigateway.AuthorizationType_NONE, ApiKeyRequired: jsii.Bool(true)}
	case None:
		return &awsapigateway.MethodOptions{AuthorizationType: awsapigateway.AuthorizationType_NONE}
	default:
		return &awsapigateway.MethodOptions{AuthorizationType: awsapigateway.AuthorizationType_IAM}
	}
}

// newKeys makes a key for each caller, and the usage plan without which a key is not valid.
func newKeys(scope constructs.Construct, settings APISettings, api awsapigateway.LambdaRestApi) []*string {
	if settings.Auth != Key {
		return nil
	}
	plan := awsapigateway.NewUsagePlan(scope, jsii.String("Plan"), &awsapigateway.UsagePlanProps{
		ApiStages: &[]*awsapigateway.UsagePlanPerApiStage{{Api: api, Stage: api.DeploymentStage()}},
		Throttle:  &awsapigateway.ThrottleSettings{RateLimit: jsii.Number(float64(settings.Rate)), BurstLimit: jsii.Number(float64(settings.Burst))},
	})
	var ids []*string
	for _, name := range settings.Keys {
		apiKey := awsapigateway.NewApiKey(scope, jsii.String("Key-"+name), &awsapigateway.ApiKeyProps{Description: jsii.String("once: " + name)})
		plan.AddApiKey(apiKey, nil)
		ids = append(ids, apiKey.KeyId())
	}
	return ids
}
