package commands

// PersonalSlug is what the workspace of a login is called.
var PersonalSlug = personalSlug
