use Test::More;
is(1 + 1, 2, 'adds');
is(1 + 1, 3, 'is wrong');
subtest texts => sub {
    plan tests => 2;
    ok(1, 'same');
    subtest deeper => sub { ok(0, 'other'); done_testing; };
};
SKIP: { skip 'no moon', 1; }
TODO: { local $TODO = 'not yet'; ok(0, 'later'); }
done_testing;
