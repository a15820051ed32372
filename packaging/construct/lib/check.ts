import { Duration, RemovalPolicy, Token } from 'aws-cdk-lib';
import * as yaml from 'yaml';
import { ApiAuth, ApiKind, ApiSettings, PipelineProps } from './props';

/** Lambda takes no more messages from a first-in-first-out queue, or from any without a window. */
export const FIFO_BATCH = 10;

/** Throws an error that names every prop with an invalid value, before anything is made. */
export function checkProps(props: PipelineProps): void {
  const problems: string[] = [];
  const need = (ok: boolean, problem: string) => {
    if (!ok) {
      problems.push(problem);
    }
  };
  const range = (name: string, value: number | undefined, low: number, high: number) => {
    const fits = value === undefined || Token.isUnresolved(value) || (Number.isInteger(value) && value >= low && value <= high);
    need(fits, `${name}: ${value} is not a whole number from ${low} to ${high}`);
  };
  need(props.config === undefined || props.configFile === undefined, 'config, configFile: give one of them');
  range('memorySize', props.memorySize, 128, 10240);
  range('timeout (seconds)', seconds(props.timeout), 5, 900);
  range('maxConcurrency', props.maxConcurrency, 2, 1000);
  range('ingestConcurrency', props.ingestConcurrency, 1, 10000);
  range('processConcurrency', props.processConcurrency, 1, 10000);
  range('publishConcurrency', props.publishConcurrency, 1, 10000);
  range('batchSize', props.batchSize, 1, 10000);
  range('batchWindow (seconds)', seconds(props.batchWindow), 0, 300);
  const { batchSize = FIFO_BATCH, removalPolicy = RemovalPolicy.RETAIN } = props;
  need(batchSize <= FIFO_BATCH || !!seconds(props.batchWindow), `batchSize: ${batchSize} is more than ${FIFO_BATCH}, so it needs a batchWindow`);
  need(!!props.vpc || (!props.vpcSubnets && !props.securityGroups), 'vpcSubnets, securityGroups: give vpc too');
  need([RemovalPolicy.RETAIN, RemovalPolicy.DESTROY].includes(removalPolicy), 'removalPolicy: is neither RETAIN nor DESTROY');
  need(!props.template || !props.api, 'api: the template has its API; make it with the options of its API, such as -c api=rest');
  need(!props.template || !props.emulator, 'emulator: make the template with the option -c emulator=true');
  problems.push(...problemsOf(props.api ?? {}));
  if (problems.length > 0) {
    throw new Error(problems.join('\n'));
  }
}

function problemsOf(api: ApiSettings): string[] {
  const rest = api.kind === ApiKind.REST;
  const jwt = api.auth === ApiAuth.JWT;
  const problems: [boolean, string][] = [
    [rest && !!api.corsOrigins?.length, 'api.corsOrigins: API Gateway adds the headers to the answers of HTTP APIs only; set kind to HTTP'],
    [!rest && !!api.logsRole, 'api.logsRole: HTTP APIs need no role for access logs; set kind to REST'],
    [!rest && jwt && !(api.jwtIssuer && api.jwtAudience?.length), 'api.auth: JWT needs jwtIssuer and jwtAudience'],
    [rest && jwt && !api.userPool, 'api.auth: JWT of a REST API needs userPool'],
    [(!jwt || rest) && !!(api.jwtIssuer || api.jwtAudience), 'api.jwtIssuer, api.jwtAudience: set auth to JWT, and kind to HTTP'],
    [(!jwt || !rest) && !!api.userPool, 'api.userPool: set auth to JWT, and kind to REST'],
  ];
  return problems.filter(([wrong]) => wrong).map(([, problem]) => problem);
}

/** The part of a configuration that this package reads. */
interface Config {
  readonly ingress?: object;
  readonly streams?: { [name: string]: { readonly direct?: boolean } | null };
  readonly handlers?: { [stream: string]: { readonly url?: string; readonly exec?: string; readonly timeout?: string } | null };
}

/**
 * Throws an error if a configuration is no mapping in YAML, has other sources than the template has queues
 * for, or does not fit to the handlers of the props and to the timeout of the process function. `once check`
 * checks everything else.
 */
export function checkConfig(text: string, queues: string[], template: string, handlers: string[], timeout: number): void {
  let parsed: Config | null;
  try {
    parsed = yaml.parse(text);
  } catch (error) {
    throw new Error(`config: ${(error as Error).message}`);
  }
  if (parsed === null || typeof parsed !== 'object' || Array.isArray(parsed)) {
    throw new Error('config: it has no settings such as streams; config is the text of once.yaml, and configFile is its path');
  }
  const sources = Object.keys(parsed.ingress ?? {});
  const wanted = sources.map((name) => `Ingress${outputName(name)}Queue`);
  const missing = sources.filter((_, i) => !queues.includes(wanted[i]));
  if (missing.length > 0) {
    throw new Error(`config: the template has no queue for ingress ${missing.join(', ')}; make one with: make included CONFIG=once.yaml, and name it in template`);
  }
  const extra = queues.filter((queue) => !wanted.includes(queue));
  if (extra.length > 0) {
    throw new Error(`template ${template}: has ${extra.join(', ')}, and the config no such ingress; make it again for this configuration`);
  }
  const problems = handlerProblems(parsed, handlers, timeout);
  if (problems.length > 0) {
    throw new Error(problems.join('\n'));
  }
}

/** The default timeout of a handler, and that of the ingest function in seconds. */
const HANDLER_TIMEOUT = '10s', INGEST_TIMEOUT = 29;
/** How many seconds of its timeout a function needs for itself. */
const MARGIN = 4;

/** Returns what is wrong with the handlers of a configuration, and of props for these streams. */
function handlerProblems({ streams = {}, handlers = {} }: Config, set: string[], timeout: number): string[] {
  const problems: string[] = [];
  for (const name of set) {
    if (!(name in streams)) {
      problems.push(`handlers.${name}: the config has no stream ${name}`);
    } else if (handlers[name]?.url || handlers[name]?.exec) {
      problems.push(`handlers.${name}: the config has another handler for the stream, which has one`);
    }
  }
  for (const name of new Set([...set, ...Object.keys(handlers)])) {
    const own = handlers[name]?.timeout ?? HANDLER_TIMEOUT;
    const limit = streams[name]?.direct ? Math.min(timeout, INGEST_TIMEOUT) : timeout;
    if (secondsOf(own) > limit - MARGIN) {
      problems.push(`handlers.${name}.timeout: ${own} does not fit into the ${limit} s of the function that calls the handler: lower it to at most ${limit - MARGIN}s, or raise timeout`);
    }
  }
  return problems;
}

/** Returns a duration of a configuration, such as 1m30s, in seconds. */
function secondsOf(duration: string): number {
  const units: { [unit: string]: number } = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 };
  return [...duration.matchAll(/([\d.]+)(ms|[smhd])/g)].reduce((sum, [, n, unit]) => sum + Number(n) * units[unit], 0);
}

/** Returns a name as it is in the name of an output: each word with a capital. */
export function outputName(name: string): string {
  return name.split(/[._-]+/).filter((word) => word).map((word) => word[0].toUpperCase() + word.slice(1)).join('');
}

/** Returns a duration in seconds. */
export function seconds(duration: Duration): number;
export function seconds(duration?: Duration): number | undefined;
export function seconds(duration?: Duration): number | undefined {
  return duration?.toSeconds({ integral: false });
}
