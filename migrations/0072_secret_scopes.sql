-- Which jobs may use a secret: an empty scope restricts nothing.
alter table farm_secrets add column scope json not null default '{}';
