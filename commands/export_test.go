package commands

// PersonalSlug returns the slug to try for a login's personal workspace.
var PersonalSlug = personalSlug
