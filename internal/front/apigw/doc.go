// Package apigw is the adapter between API Gateway and net/http: it answers the events of REST
// APIs, HTTP APIs and function URLs with an http.Handler.
//
// A generic adapter was tried and refused: github.com/awslabs/aws-lambda-go-api-proxy (v0.16.2)
// splits header values at commas, which breaks dates and structured fields; pastes decoded paths
// into a URL, so that a decoded ? or # starts a query; and returns an error if a handler writes
// nothing.
//
// # Limits
//
// HTTP APIs decode the path before they invoke a function, and cut it at a decoded question mark:
// if an id has a ?, empty segments or segments of dots, it can't be addressed through them; REST
// APIs and function URLs take every id. A REST API answers with bytes only if binaryMediaTypes
// lists the content type.
package apigw
