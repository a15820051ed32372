export * from './pipeline';
export * from './props';
