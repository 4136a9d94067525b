-- Members are no longer listed in the order of their users' ids; members_of_user finds one by its user.
drop index members_user;
